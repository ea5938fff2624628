"""Job scripts of Slurm as submissions."""
