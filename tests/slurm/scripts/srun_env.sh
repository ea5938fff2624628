#!/bin/bash
#SBATCH -n 2
#SBATCH -o env.out
export COLOUR=blue
srun --export=ALL,SHAPE=round sh -c 'echo $COLOUR $SHAPE' | sort
srun -n1 --export=NONE,SHAPE=flat /bin/sh -c 'echo ${COLOUR:-none} $SHAPE'
