"""The language of Slurm's job scripts, and the programs that such a script finds in its job.

Standard library only: programs of this package run inside jobs.
"""
