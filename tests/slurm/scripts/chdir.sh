#!/bin/bash
#SBATCH --chdir=sub
#SBATCH --output=in-sub.out
pwd
echo "submitted from $SLURM_SUBMIT_DIR"
