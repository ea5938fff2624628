#!/bin/bash
#SBATCH --mem=2G
#SBATCH --output=memory.out
echo "$SLURM_MEM_PER_NODE ${SLURM_MEM_PER_CPU:-unset}"
