"""Sockets, connections, limits and refusals of the HTTP server."""
