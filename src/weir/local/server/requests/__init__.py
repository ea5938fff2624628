"""Requests about running workloads and sweeps that take several parts of the pool."""
