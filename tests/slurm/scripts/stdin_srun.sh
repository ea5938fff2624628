#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --output=stdin.out
printf 'one\ntwo\n' | srun --label cat | sort
