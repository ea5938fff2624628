#!/bin/bash
#SBATCH --export=ALPHA,BETA=two
#SBATCH --output=export.out
echo "alpha=$ALPHA beta=$BETA gamma=${GAMMA:-unset}"
