"""The aggregated API `query.weir.dev`: what people ask about the cluster, with the API server in front."""
