"""People of the pool: accounts, sign-in, rights, request rates and the audit log."""
