"""This machine as a pool: processes, devices and directories behind the backend port."""
