"""What should be: a pure function from the cluster to a plan."""
