"""Weir's own objects: their shapes, and the nouns made of them."""
