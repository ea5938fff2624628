"""Contract of every backend that the control loop drives."""
