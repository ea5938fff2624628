"""Starts of pods: the spec of each, and the request to the node process."""
