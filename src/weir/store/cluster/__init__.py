"""The history of a cluster: the leader writes it, and every replica reads it."""
