"""Monitoring of an installation: Prometheus, alerts, and a Grafana board."""
