"""Benchmarks on real records and on clusters of any size; each prints a table beside published results."""
