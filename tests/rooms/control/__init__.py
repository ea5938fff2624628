"""Tests of weir.control."""
