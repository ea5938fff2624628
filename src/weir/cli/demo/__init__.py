"""`weir demo`: a tour with real training in a temporary pool. Every claim of the tour is checked."""
