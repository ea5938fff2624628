"""The dashboard of a cluster: a server on loopback that has the rights of one person's kubeconfig."""
