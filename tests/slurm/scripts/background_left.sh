#!/bin/bash
#SBATCH --output=left.out
sleep 600 &
echo "done, and a process stays"
