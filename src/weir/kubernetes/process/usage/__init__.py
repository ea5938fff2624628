"""Use of GPUs and of their memory, handed to control and to people, and the headroom learned from it."""
