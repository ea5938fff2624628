"""Owners of pods and pod groups: they decide the workload of each pod."""
