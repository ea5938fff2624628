"""Projects and departments: their quotas and members, and the priority classes."""
