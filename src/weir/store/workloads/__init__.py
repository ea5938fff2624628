"""Workloads, arrays, sweeps and schedules, and the journal of the local backend."""
