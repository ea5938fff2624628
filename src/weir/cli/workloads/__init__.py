"""Workloads: list and describe them, explain them, read their output, and act on them."""
