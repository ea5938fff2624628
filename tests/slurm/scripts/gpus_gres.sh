#!/bin/bash
#SBATCH --gres=gpu:2
#SBATCH --output=gpus.out
echo "gpus on node $SLURM_GPUS_ON_NODE"
