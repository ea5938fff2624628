"""Every change of the tables, in order; run when a database is opened."""
