"""Allocation of free and nominated capacity to pending workloads."""
