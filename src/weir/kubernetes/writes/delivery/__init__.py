"""Delivery of writes to the API server: their order and pace, retries, and the leadership that they need."""
