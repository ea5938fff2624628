"""Quota checks of a request, before nodes are searched and for each placement."""
