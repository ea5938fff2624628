"""Usage of devices and of the machine, by pods and by processes outside the pool."""
