"""Rules of notifications, and the outbox of their messages."""
