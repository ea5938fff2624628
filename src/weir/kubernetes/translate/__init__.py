"""What people write of their pods becomes what the engine reads. All of it is pure."""
