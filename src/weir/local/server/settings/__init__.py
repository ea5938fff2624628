"""Settings of `weir up`, with prices, priority classes and the access from other machines."""
