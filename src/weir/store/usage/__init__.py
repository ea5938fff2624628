"""Usage of devices, metered between changes and summed by minute, hour and day."""
