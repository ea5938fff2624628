"""Bodies of the REST interface: what clients submit and what a pool answers, for server and client alike."""
