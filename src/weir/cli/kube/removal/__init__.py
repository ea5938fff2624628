"""`weir kube uninstall`: removal of all objects of an installation, and of its traces on others."""
