"""Options of sbatch that mean something else on a cluster than on the machine of a pool."""

import signal
from dataclasses import replace

from weir.slurm.batch_request import BatchRequest
from weir.slurm.given_options import GivenOption
from weir.slurm.options import Support

_LOG = "a pod has a log, which `weir logs NAME` prints"
_PLACEMENT = "`weir submit --topology` keeps pods together"
_CORES = "the CPU cores of a pod are its request"
_OTHERS: dict[str, tuple[Support, str]] = {
    "output": ("advice", _LOG),
    "error": ("advice", _LOG),
    "open-mode": ("advice", _LOG),
    "input": ("needed", "a pod has no file of yours: write < FILE into the script, with a path of the image"),
    "no-requeue": ("advice", "Weir starts a preempted job again"),
    "exclude": ("needed", "a Job names the nodes that it may use: write --nodelist or --constraint"),
    "container": ("needed", "write --image=IMAGE instead"),
    "hold": ("needed", "submit it, and write weir suspend with its name"),
    "batch": ("needed", "all pods of a job are alike: write --constraint"),
    "clusters": ("needed", "a command has one cluster: write WEIR_URL=kube:CONTEXT"),
    "uid": ("needed", "a pod runs as the user of its image"),
    "gid": ("needed", "a pod runs as the user of its image"),
    "contiguous": ("advice", _PLACEMENT),
    "network": ("advice", "pods have the network of their cluster"),
    "spread-job": ("advice", _PLACEMENT),
    "switches": ("advice", _PLACEMENT),
    "use-min-nodes": ("advice", "a job always has the minimum of --nodes as its number of pods"),
    "wait-all-nodes": ("advice", "the pods of a job start together"),
    "prefer": ("advice", "write --constraint for labels of nodes that a pod needs"),
    "no-kill": ("advice", "a lost pod is replaced"),
    "get-user-env": ("advice", "a pod has the variables of its image"),
    "overcommit": ("advice", _CORES),
    "oversubscribe": ("advice", _CORES),
    "propagate": ("advice", "the limits of containers hold"),
}
_NO_INPUT = ("/dev/null", "none")
_NOT_SENT = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a shell has its programs in the background ignore."""


def for_cluster(request: BatchRequest) -> BatchRequest:
    """Return a request whose options have their meaning on a cluster."""
    options = dict(request.options)
    for name in _OTHERS.keys() & options.keys():
        if name == "input" and request.text(name) in _NO_INPUT:
            continue
        options[name] = _changed(options[name], *_OTHERS[name])
    if request.signal is not None and request.signal.number in _NOT_SENT:
        why = "the shell of a pod starts a script without this signal: write USR1 or TERM"
        options["signal"] = _changed(options["signal"], "needed", why)
    return replace(request, options=options)


def _changed(given: GivenOption, support: Support, why: str) -> GivenOption:
    return given._replace(option=given.option._replace(support=support, why=why))
