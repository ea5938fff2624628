"""Nodes, the usage of the pods on them, and the capacity that is left for others."""
