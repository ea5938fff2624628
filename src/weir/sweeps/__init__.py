"""Hyper-parameter sweeps: search spaces, successive halving and samplers. Nothing here knows a pool."""
