"""The nouns: what people write and everyone names. Plain data, no behaviour beyond reading it."""
