"""Storage of workloads, the quota tree, tokens, events and usage: one database, one writer.

`store.Store` is the interface. The store makes no decisions, and nothing upstream imports it.
"""
