"""Admission policies, which the API server checks by itself."""
