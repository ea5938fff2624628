#!/bin/bash
#SBATCH --output=unset.out
for name in NTASKS CPUS_PER_TASK GPUS GPUS_PER_NODE MEM_PER_NODE ARRAY_TASK_ID NTASKS_PER_NODE; do
    variable=SLURM_$name
    echo "$variable=${!variable-unset}"
done
