"""Replacement of running work by pending work that uses its devices better: swaps and repacking."""
