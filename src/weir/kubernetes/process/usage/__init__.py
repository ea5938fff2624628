"""Use of GPUs and their memory for control and for people, and the headroom learned from it."""
