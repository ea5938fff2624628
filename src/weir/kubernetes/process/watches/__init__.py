"""Watches of API resources, also of those that a release serves in another version or not at all."""
