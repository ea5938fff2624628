"""Sweeps of a cluster: each trial runs to a rung as a Job, and the results are in the Sweep's status."""
