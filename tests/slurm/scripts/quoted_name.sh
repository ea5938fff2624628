#!/bin/bash
#SBATCH --job-name="two words"
#SBATCH --comment='a comment with # inside'   # and one after
#SBATCH --output="quoted name.out"
echo "$SLURM_JOB_NAME"
