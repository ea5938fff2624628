"""A real Kubernetes node on this machine: a kubelet, a container runtime and fake GPUs, to test against.

programs.py   finds the programs, builds the kubelet, unpacks the packages of the runtime
machine.py    tells whether this machine can run a node
image.py      writes the one container image
settings.py   the configuration of the kubelet and of containerd
inside.py     process 1 of the node, in namespaces of its own
guard.py      ends the node with its test, and removes its cgroups
node.py       starts and stops a node, and reads what its containers got
"""
