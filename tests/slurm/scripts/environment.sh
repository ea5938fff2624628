#!/bin/bash
#SBATCH --job-name=environment
#SBATCH --output=environment.out
#SBATCH --ntasks=2
#SBATCH --mem-per-cpu=50M
#SBATCH --partition=gpu
for name in JOB_NAME NTASKS NPROCS NNODES JOB_NUM_NODES TASKS_PER_NODE CPUS_ON_NODE JOB_CPUS_PER_NODE \
    MEM_PER_CPU PROCID LOCALID NODEID GTIDS JOB_PARTITION PRIO_PROCESS; do
    variable=SLURM_$name
    echo "$variable=${!variable-unset}"
done
echo "$ENVIRONMENT"
