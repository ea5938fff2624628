#!/bin/bash
#SBATCH --output=logs/%x-%u.out
#SBATCH --job-name=nested
echo "in a directory"
