"""Resource claims: device selectors, device pools and the allocation of devices, as pure functions."""
