"""Watches of resources of the API, also of those that a release serves in another version or not at all."""
