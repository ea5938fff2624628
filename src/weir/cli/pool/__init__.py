"""Connection of a command to a pool, and lists that it watches."""
