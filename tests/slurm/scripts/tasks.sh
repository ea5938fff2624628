#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --nodes=1
#SBATCH --output=tasks.out
echo "tasks $SLURM_NTASKS cpus $SLURM_CPUS_PER_TASK nodes $SLURM_NNODES per node $SLURM_TASKS_PER_NODE"
echo "on node $SLURM_CPUS_ON_NODE, job cpus $SLURM_JOB_CPUS_PER_NODE"
srun --label sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS local $SLURM_LOCALID node $SLURM_NODEID'
