#!/bin/bash
#SBATCH --job-name=größe
#SBATCH --output=unicode.out
echo "größe: $SLURM_JOB_NAME ✓"
