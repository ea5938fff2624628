"""Records of what was submitted, and how long it ran: our own format and public ones, by name."""
