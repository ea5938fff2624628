#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=2
#SBATCH --output=gpus.out
echo "per node $SLURM_GPUS_PER_NODE on node $SLURM_GPUS_ON_NODE"
echo "tasks per node $SLURM_NTASKS_PER_NODE tasks ${SLURM_NTASKS}"
srun -l echo ready
