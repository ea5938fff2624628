"""Control: the loop that applies plans, the lifecycle of workloads, and the backend port."""
