"""Refusals of pending workloads: the numbers of each check, and the phrases that people read."""
