"""Client of the API server: requests, lists, watches, leader election. It knows no rule of scheduling."""
