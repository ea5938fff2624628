"""Refusal of a job script of Slurm."""


class SlurmError(ValueError):
    """A script or an option can't be used; the message says what to write instead."""
