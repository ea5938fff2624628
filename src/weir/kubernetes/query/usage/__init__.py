"""Use of GPUs in the last hours: curves, and the answers for reports."""
