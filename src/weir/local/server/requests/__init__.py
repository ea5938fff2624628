"""Requests about running workloads and sweeps that need several parts of the pool."""
