"""Messages of jobs about themselves, and the writer of their reports."""
