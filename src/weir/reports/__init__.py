"""HTML reports: each is one file that loads nothing from elsewhere."""
