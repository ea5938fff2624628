"""A Kubernetes cluster behind the backend port."""
