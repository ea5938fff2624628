"""Usage of queues in one cycle, with their quotas and fair shares."""
