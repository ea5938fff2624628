#!/bin/sh
#SBATCH -o code.out
exit 130
