"""Use of GPUs on a cluster, as a Prometheus server knows it: read, matched with pods, and classified."""
