"""A private Slurm of Debian's packages: the reference for scripts of Slurm in the tests."""
