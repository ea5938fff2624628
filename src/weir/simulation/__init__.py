"""A world in memory on virtual time: scenarios played cycle by cycle, traces replayed, faults on purpose."""
