"""State of the cluster: objects go in, facts for control come out. All of it is pure."""
