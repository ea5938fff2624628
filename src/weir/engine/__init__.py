"""The engine: a pure function from the cluster state to a plan."""
