"""Sessions: an interactive workload, and the ways into it."""
