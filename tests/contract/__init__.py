"""What every backend that is driven by the control loop must show."""
