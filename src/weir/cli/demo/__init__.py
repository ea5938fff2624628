"""`weir demo`, the tour: a pool of its own, real training in it, and every claim checked."""
