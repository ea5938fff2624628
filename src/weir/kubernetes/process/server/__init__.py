"""The port of a scheduler: webhooks, the query API, reports of nodes, health and metrics."""
