"""The bundle and the catalogue for the Operator Lifecycle Manager."""
