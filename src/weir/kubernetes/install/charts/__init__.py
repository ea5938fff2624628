"""The Helm charts, made of the objects of an installation."""
