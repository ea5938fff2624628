#!/bin/bash
#SBATCH -o srun_chdir.out
mkdir -p inner
srun --chdir=inner pwd
srun -D / sh -c 'pwd; exit 9' 2>/dev/null
