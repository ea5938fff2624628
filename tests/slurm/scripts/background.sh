#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --output=background.out
srun -n1 --exact sh -c 'echo a > a.txt' &
srun -n1 --exact sh -c 'echo b > b.txt' &
wait
cat a.txt b.txt
