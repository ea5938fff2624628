#!/bin/bash
#SBATCH --output=/dev/null
#SBATCH --error=problems.err
echo nowhere
echo somewhere >&2
