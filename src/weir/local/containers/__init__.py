"""Containers of pods: a rootless runtime in the place of the command, within the pod's own limits."""
