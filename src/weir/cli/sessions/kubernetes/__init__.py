"""Sessions on a cluster: ways into a container through the API server's exec, with one's own rights."""
