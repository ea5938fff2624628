#!/bin/bash
#SBATCH --requeue
#SBATCH --output=restart.out
echo "restarts ${SLURM_RESTART_COUNT:-0}"
