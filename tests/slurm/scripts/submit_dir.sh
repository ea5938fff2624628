#!/bin/bash
#SBATCH --output=dir.out
cd "$SLURM_SUBMIT_DIR" && pwd
mkdir -p results && echo data > results/file.txt
