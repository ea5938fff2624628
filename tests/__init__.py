"""Weir, held against what it promises."""
