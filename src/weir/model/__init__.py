"""The nouns of Weir as plain data, without behaviour."""
