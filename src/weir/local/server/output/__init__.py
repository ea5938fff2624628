"""Output of workloads: read, followed, and with warnings written into it."""
