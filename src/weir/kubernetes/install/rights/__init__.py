"""Service accounts and roles, of Weir and of people."""
