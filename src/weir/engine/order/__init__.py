"""Order of queues and of pending workloads."""
