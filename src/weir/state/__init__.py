"""What is true: events and the columns they are reduced into."""
