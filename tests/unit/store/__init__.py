"""Stored data, and its fate when things go wrong."""
