"""Sweeps: their search spaces, samplers and decisions."""
