"""A Kubernetes control plane on this machine, with simulated nodes, for tests and for trying Weir.

binaries.py      finds the programs, or builds them once
certificates.py  certificates of one control plane
plane.py         starts and stops it
processes.py     child processes that end with their parent
nodes.py         nodes with GPUs, and the lives of the pods on them
api.py           a client of few words, for tests
proxy.py         faults between a client and the API server
"""
