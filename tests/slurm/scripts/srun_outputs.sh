#!/bin/bash
#SBATCH --ntasks=2 --output=main.out
srun --output=step-%t.txt sh -c 'echo task $SLURM_PROCID'
srun -n1 --output=step%s-only.txt echo one
cat step-0.txt step-1.txt
