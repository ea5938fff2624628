#!/bin/bash
#SBATCH --output=signalled.out
echo going
kill -USR1 $$
