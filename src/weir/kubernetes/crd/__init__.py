"""Weir's own objects: their schemas, and their translation to and from the model."""
