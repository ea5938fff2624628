"""Templates: submissions with parameters, kept for the people of a project."""
