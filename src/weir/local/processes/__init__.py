"""Actions on processes of pods: by the server itself, or through the node process."""
