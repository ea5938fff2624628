"""Tests of weir.backends."""
