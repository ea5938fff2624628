"""Pods that Weir schedules: read with the objects around them, tracked, started and stopped."""
