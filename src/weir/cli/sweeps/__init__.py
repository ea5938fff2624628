"""Hyper-parameter sweeps."""
