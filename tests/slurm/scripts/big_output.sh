#!/bin/bash
#SBATCH --output=big.out
seq 1 50000
