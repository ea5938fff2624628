"""The database: its engine, its writing thread, its schema and identity, and backups of it."""
