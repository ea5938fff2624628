"""Departments and projects in effect, and the non-preemptible work against their quotas."""
