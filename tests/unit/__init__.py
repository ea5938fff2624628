"""Each package by itself."""
