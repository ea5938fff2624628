"""Placement of pods: free capacity, feasible nodes, node scores, topology and reservations."""
