"""What is changed in objects and said of them before the API server takes them, and the port for it."""
