"""Submissions of workloads: defaults, checks, limits, start conditions, schedules and templates."""
