"""The objects of an installation: manifests, policies, rights, monitoring."""
