"""Parts that the server of a pool and the scheduler of a cluster share.

The control thread, rows of queues and nodes, reasons of pending workloads, trials on a branch of the state,
log and metrics.
"""
