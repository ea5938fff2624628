"""The process of the scheduler in a cluster: leadership, control thread, webhooks, statuses and metrics."""
