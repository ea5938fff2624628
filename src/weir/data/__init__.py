"""Data the program ships; each file's origin and licence are beside it."""
