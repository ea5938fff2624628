"""Preemption: the workloads to free capacity for, the ways to try, and the reasons of evictions."""
