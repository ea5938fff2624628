"""Attacks of a user of the machine, run as that user: each is refused by the kernel, or it succeeds and says so."""
