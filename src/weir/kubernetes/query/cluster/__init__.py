"""Answers about the whole cluster, from the state of its scheduler."""
