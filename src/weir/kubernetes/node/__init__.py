"""The agent of a node: it reads the kubelet's pod-resources socket and the driver, and reports to Weir."""
