#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --output=hello-%j.out
#SBATCH --ntasks=1
#SBATCH --time=10:00
#SBATCH --mem=100M
echo "hello from job $SLURM_JOB_NAME"
