"""What is said to the API server and heard from it, and nothing of what it means."""
