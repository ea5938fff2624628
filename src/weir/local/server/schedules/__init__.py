"""Schedules: workloads that are queued at the times of cron expressions."""
