#!/bin/sh
#SBATCH --output=%x.out --error=%x.err
#SBATCH --job-name=split
echo out; echo err >&2; echo out again
