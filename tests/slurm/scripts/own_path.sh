#!/bin/bash
#SBATCH --output=path.out
basename "$0"
grep -c SBATCH "$0"
