#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --output=farm.out
for i in 1 2 3; do
    srun --ntasks=1 --exclusive --output=farm-$i.txt sh -c "echo item $i" 2>/dev/null &
done
wait
cat farm-?.txt
