#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=1
#SBATCH --nodes=1
#SBATCH --output=gpus.out
echo "per task $SLURM_GPUS_PER_TASK on node $SLURM_GPUS_ON_NODE tasks $SLURM_NTASKS"
