"""What is answered at which address, one module for each noun."""
