"""Requests and answers of the REST interface, shared by server and client."""
