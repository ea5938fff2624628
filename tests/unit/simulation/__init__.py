"""Tests of the simulated backend."""
