"""Commands for a cluster: the REST calls of a pool, answered from objects of the API server."""
