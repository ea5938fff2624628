"""Making it so: the loop, the life of workloads, and the port behind which the world is."""
