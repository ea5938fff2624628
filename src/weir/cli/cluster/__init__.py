"""The command line against a cluster: the questions of a pool, answered from the API server's objects."""
