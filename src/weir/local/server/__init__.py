"""The server of a pool on one machine: REST, the live stream, and the composition root."""
