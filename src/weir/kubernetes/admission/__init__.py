"""Admission webhooks: patches and refusals of objects, and the server that answers with them."""
