"""Resource claims of pods: their users, their devices, and the copies of them that fit each node."""
