"""Workloads by name: their objects, allocations, budgets, and conditions for their start."""
