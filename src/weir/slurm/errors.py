"""Refusal of a job script of Slurm."""


class SlurmError(ValueError):
    """A script or an option can't be used; the message has a valid form."""
