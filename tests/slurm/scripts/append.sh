#!/bin/bash
#SBATCH --output=append.out
#SBATCH --open-mode=append
echo "added"
