"""A week in a cluster: legal situations of daily life in random order, and invariants checked at every step."""
