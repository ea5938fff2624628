"""`weir dashboard`: a way to the page in a browser."""
