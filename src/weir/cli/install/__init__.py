"""`weir install` and `weir uninstall`: a pool for everyone on a machine, as steps that are plain values."""
