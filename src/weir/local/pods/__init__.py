"""Running pods: their supervisors, their messages, and their recovery."""
