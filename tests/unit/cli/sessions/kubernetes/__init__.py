"""Unit tests of sessions on a cluster."""
