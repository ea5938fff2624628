"""Records of the home of a pool: the directory of each start, messages of jobs, and the clock."""
