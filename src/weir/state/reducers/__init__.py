"""What each event changes, a module for each thing it changes."""
