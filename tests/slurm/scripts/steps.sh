#!/bin/bash
#SBATCH -n2
#SBATCH -o steps.out
for i in 0 1 2; do
    srun -n1 sh -c 'echo step $SLURM_STEP_ID tasks $SLURM_STEP_NUM_TASKS'
done
