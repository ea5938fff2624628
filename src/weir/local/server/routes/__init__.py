"""REST routes, one module for each noun."""
