"""Simulations: scenario files, replays of traces, and the pool as a scenario."""
