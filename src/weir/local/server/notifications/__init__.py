"""Notifications of a pool: rules of people and projects, and the file with the addresses of receivers."""
