"""Commands for the server of a pool on this machine: its start, its settings, and backups of its database."""
