"""Access of people: login, tokens, secrets, notifications, and the audit log."""
