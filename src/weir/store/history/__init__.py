"""Past events, and sums over ended workloads."""
