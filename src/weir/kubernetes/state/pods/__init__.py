"""Pods that Weir schedules: read with related objects, tracked, started and stopped."""
