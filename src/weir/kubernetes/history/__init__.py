"""History of a cluster in a database: written by the leader, read by every replica."""
