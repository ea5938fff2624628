"""This machine as a node: its GPUs, its limits, and the environment of its pods."""
