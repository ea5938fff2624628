"""Tests of weir.cli."""
