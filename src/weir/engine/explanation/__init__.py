"""Explanation of pending workloads: the refusals of one state, and a reason with numbers for each."""
