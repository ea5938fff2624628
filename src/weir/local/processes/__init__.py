"""Processes of pods, as the server acts on them: itself, or through the node process."""
