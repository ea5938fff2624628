"""Unit tests of the dashboard."""
