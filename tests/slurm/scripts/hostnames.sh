#!/bin/bash
#SBATCH --output=hosts.out
#SBATCH --nodes=1
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
[ "$head_node" = "$SLURMD_NODENAME" ] && echo same
scontrol show hostnames n[1-3,08-10],login
scontrol show hostlist n1,n2,n3,n5
export MASTER_ADDR=$head_node
[ "$SLURM_NODELIST" = "$SLURM_JOB_NODELIST" ] && echo equal
