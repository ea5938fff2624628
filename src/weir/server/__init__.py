"""The pool as a service: everything put together, and how people and programs speak with it."""
