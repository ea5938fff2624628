"""Writes about nodes: their labels and taints for shares of GPUs."""
