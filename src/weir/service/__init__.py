"""Parts that the server of a pool and the scheduler of a cluster share.

The control thread, rows of queues and nodes, reasons of pending workloads, what-if copies, log and metrics.
"""
