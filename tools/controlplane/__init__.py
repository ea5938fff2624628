"""A Kubernetes control plane on this machine, with pretended nodes: to test against, to try Weir on.

binaries.py      finds the programs, or builds them once
certificates.py  who is who in one control plane
plane.py         starts and stops it
processes.py     what was started ends with whoever started it
nodes.py         nodes with GPUs, and the lives of the pods on them
api.py           a client of few words, for tests
proxy.py         faults between a client and the API server
"""
