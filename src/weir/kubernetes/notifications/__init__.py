"""Notifications of a cluster: rules as objects, events of workloads for them, and the leader that sends."""
