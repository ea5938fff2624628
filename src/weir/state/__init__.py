"""Cluster state: events and the columns that they are reduced into."""
