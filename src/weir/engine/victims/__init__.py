"""Victims of one requester: candidates, their price, and the search for the cheapest set."""
