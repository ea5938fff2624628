"""This machine as a pool: its devices, and process groups under supervisors that outlive the server."""
