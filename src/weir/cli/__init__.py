"""Words on a terminal. What a command needs is imported when it runs, so that `weir --help` is quick."""
