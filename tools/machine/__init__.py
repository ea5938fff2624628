"""A machine for one command: Linux with systemd and version 2 of control groups, in User Mode Linux."""
