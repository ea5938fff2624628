"""Workloads and events of a cluster as rows, on every replica."""
