#!/bin/bash
#SBATCH -o killed.out
srun sh -c 'kill -9 $$' 2>/dev/null
echo "code $?"
srun -n1 sh -c 'kill -TERM $$' 2>/dev/null
echo "code $?"
