#!/bin/bash
#SBATCH --output=export.out
#SBATCH --export=ALL,DELTA=4
echo "alpha=$ALPHA delta=$DELTA gamma=$GAMMA"
