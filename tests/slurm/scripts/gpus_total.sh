#!/bin/bash
#SBATCH --gpus=2
#SBATCH --cpus-per-gpu=1
#SBATCH --output=gpus.out
echo "gpus $SLURM_GPUS on node $SLURM_GPUS_ON_NODE cpus per gpu $SLURM_CPUS_PER_GPU"
