"""Use of GPUs on a cluster, read from node agents or from Prometheus, matched with pods, and classified."""
