"""Submissions: from options, files, job scripts, templates and schedules."""
