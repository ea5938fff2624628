"""Reports of usage and of a period, made of sums."""
