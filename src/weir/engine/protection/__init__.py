"""Protection of running work from a requester: rules of preemption, quotas and disruption budgets."""
