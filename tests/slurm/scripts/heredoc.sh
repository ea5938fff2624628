#!/bin/bash
#SBATCH --output=heredoc.out
cat > config.ini <<END
[job]
name = $SLURM_JOB_NAME
END
cat config.ini
#SBATCH --ntasks=9
echo "tasks ${SLURM_NTASKS:-unset}"
