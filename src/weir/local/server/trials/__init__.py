"""Trials of sweeps: their launch, and the record of their rungs."""
