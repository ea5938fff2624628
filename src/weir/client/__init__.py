"""The typed client, and what a job may say to the pool it runs in."""
