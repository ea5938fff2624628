"""Nodes: their state and usage, and their maintenance."""
