#!/bin/bash
#SBATCH -o missing.out
srun ./no-such-program 2>/dev/null
echo "code $?"
