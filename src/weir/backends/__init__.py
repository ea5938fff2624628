"""Adapters at the edge: where nodes and pods come from, and who starts and stops them."""
