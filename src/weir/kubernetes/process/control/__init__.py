"""The control loop of a cluster: hooks around its steps, its log and counters, and the view of a standby."""
