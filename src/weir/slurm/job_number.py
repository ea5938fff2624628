"""Numbers of the jobs of `weir sbatch` on a cluster; apart, because each submission looks for one."""

NUMBER = "WEIR_SLURM_JOB"
"""Variable with the number of the job, which the Job has as a label."""
NUMBER_MIN, NUMBER_MAX = 1_000_000, 66_000_000
"""Numbers that Slurm takes for jobs, with space for the tasks of an array above them."""
