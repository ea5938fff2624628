"""Name of the ConfigMap that commands read at each start, apart from all that makes an installation."""

INSTALLATION = "weir-installation"
"""A ConfigMap every user may read: the scheduler's name and the resources that are devices."""
