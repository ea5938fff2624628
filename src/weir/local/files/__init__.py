"""Files that jobs may have changed, deletions of trees, values of secrets, and a reserve of the disk."""
