"""Run a pool on this machine: the backend (processes, devices, directories) and its server."""
