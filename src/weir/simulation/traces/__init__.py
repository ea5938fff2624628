"""Records of submissions and run times: our own format and public ones, by name."""
