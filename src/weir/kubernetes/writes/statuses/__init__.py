"""Statuses, conditions and events of workloads and their pods, for people and other programs."""
