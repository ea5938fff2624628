"""Reverse proxy of sessions in a browser: the parts that a pool's server and the command line share."""
