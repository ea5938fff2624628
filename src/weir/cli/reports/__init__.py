"""Reports of usage over time."""
