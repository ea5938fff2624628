"""The aggregation layer of the API server: discovery, forwarded identities, rights and refusals."""
