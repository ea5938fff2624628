"""State of the pool for all requests: the store, the backend, control, and look-ups in them."""
