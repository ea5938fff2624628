"""The command line. A command imports its modules when it runs, so that `weir --help` is quick."""
