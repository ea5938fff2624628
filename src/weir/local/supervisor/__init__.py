"""The supervisor beside each pod, and the leader that becomes its command."""
