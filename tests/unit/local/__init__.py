"""The local backend, with real processes."""
