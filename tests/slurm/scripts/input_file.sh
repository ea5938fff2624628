#!/bin/bash
#SBATCH --input=script.in
#SBATCH --output=input.out
echo "read: $(cat)"
