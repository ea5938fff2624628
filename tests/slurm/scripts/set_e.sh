#!/bin/bash -e
#SBATCH --output=strict.out
set -uo pipefail
echo "first"
false | true
echo "never"
