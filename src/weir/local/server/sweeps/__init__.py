"""Hyper-parameter sweeps of a pool.

`rung_recorder` writes down on the control thread which trial has reached which rung, and parks it there.
`controller` begins and promotes trials on the event loop, from what is written down.
"""
