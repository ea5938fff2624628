"""Departments and projects in effect, and the quota check of non-preemptible work."""
