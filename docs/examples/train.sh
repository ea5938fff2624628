#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=default
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --output=%x-%j.out
#SBATCH --hint=nomultithread

srun --label sh -c 'echo "task $SLURM_PROCID of $SLURM_NTASKS"'
