"""Writes to the API server: bindings, evictions, statuses, events."""
