"""Commands about an installation in a cluster: manifests, its processes, and the import of queues."""
