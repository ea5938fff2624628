#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --output=background.out
srun -n1 --exact sh -c 'echo a > a.txt' 2>/dev/null &
srun -n1 --exact sh -c 'echo b > b.txt' 2>/dev/null &
wait
cat a.txt b.txt
