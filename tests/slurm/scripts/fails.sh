#!/bin/bash
#SBATCH -J fails
#SBATCH -t 5
echo "before" ; echo "to stderr" >&2
exit 7
