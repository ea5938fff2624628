"""Conversion of the queues of other schedulers to projects and departments."""
