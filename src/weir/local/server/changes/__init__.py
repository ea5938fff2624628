"""Changes that people make to the pool: queues, members, nodes, maintenance and cancellations."""
