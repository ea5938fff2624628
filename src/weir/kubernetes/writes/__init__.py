"""What Weir writes to the API server: bindings, evictions, statuses, events."""
