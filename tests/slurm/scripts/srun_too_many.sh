#!/bin/bash
#SBATCH -n 2
#SBATCH -o many.out
srun -n 5 hostname 2>/dev/null
echo "code $?"
srun -n 2 --overlap echo fits
