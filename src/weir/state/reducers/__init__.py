"""Reducers, a module for each part of the state."""
