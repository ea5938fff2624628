"""The Helm charts, built from the objects of an installation."""
