"""Writes about pods: volumes and claims before a binding, and conditions at an end."""
