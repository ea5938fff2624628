"""Workloads as their pods form them, and the facts of them for control."""
