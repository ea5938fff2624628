"""Pods of an installation, the objects around them, and their network policies."""
