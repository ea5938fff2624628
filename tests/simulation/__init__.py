"""The control loop run in a world in which things go wrong, held against what is always true."""
