"""What is written down, and what becomes of it when things go wrong."""
