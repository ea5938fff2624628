"""Weir in front of a real API server."""
