"""State of the cluster: objects are turned into facts for control. No I/O."""
