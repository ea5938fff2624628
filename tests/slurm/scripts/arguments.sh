#!/bin/bash
#SBATCH --job-name=arguments
#SBATCH --output=arguments.out
printf '<%s>\n' "$@"
echo "count $#"
