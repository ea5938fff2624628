#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --output=multi.out
cat > tasks.conf <<'END'
# ranks   program
0         echo first %t
1         echo other %t offset %o
END
srun --label --multi-prog tasks.conf | sort
