#!/bin/bash
#SBATCH -n 2
#SBATCH -o srun_exit.out
srun sh -c 'exit $SLURM_PROCID' 2>/dev/null
echo "srun ended with $?"
srun -n1 sh -c 'exit 5' 2>/dev/null
