"""Hyper-parameter sweeps of a pool.

`rung_recorder` stores on the control thread the rungs that trials reach, and parks them there. `controller`
begins and promotes trials on the event loop, from the stored records.
"""
