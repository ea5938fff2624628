"""Files that the server keeps in the pool's home, and their retention."""
