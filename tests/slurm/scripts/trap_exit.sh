#!/bin/bash
#SBATCH --output=trap.out
trap 'echo cleaning up; rm -f scratch.tmp' EXIT
touch scratch.tmp
echo working
exit 3
