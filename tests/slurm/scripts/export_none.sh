#!/bin/bash
#SBATCH --output=export.out
#SBATCH --export=NONE
echo "alpha=${ALPHA:-unset} job=${SLURM_JOB_NAME}"
