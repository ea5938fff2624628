"""`weir doctor`: facts of a machine, checks that turn them into findings, and their report."""
