"""Live workloads as people see them: rows, events, metrics and signs of activity."""
