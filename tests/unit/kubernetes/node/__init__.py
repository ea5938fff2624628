"""Tests of the use of GPUs on clusters."""
