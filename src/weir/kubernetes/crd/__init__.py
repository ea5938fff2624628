"""Weir's own objects: their shapes, and what is made of them."""
