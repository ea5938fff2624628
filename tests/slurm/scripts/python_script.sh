#!/usr/bin/env python3
#SBATCH --job-name=python
#SBATCH --output=python.out
#SBATCH --mem=200M
import os
import sys

print("name", os.environ["SLURM_JOB_NAME"], "arguments", sys.argv[1:])
sys.exit(4)
