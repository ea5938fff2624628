"""The aggregated API `query.weir.dev`: queries of people about the cluster, with the API server in front."""
