"""Upper bounds on the pods that fit after every eligible victim is stopped.

A project gives while it holds more than its quota: a last victim that begins within that, and no more.
So of one that is hardly over its quota only little can go, on each node and on all of them together.
"""

from typing import NamedTuple

import numpy as np

from weir.state.capacity_columns import Bools, Floats, Ints


class VictimPods(NamedTuple):
    """Pods that may be stopped, an entry each: node, devices, all devices of their job, project.

    Devices in thousandths, or in any other unit that all entries share.
    """

    node: Ints
    milli: Ints
    of_job: Floats
    project: Ints


def max_pods(
    free: Ints, each: int, open_: Bools, victims: VictimPods, over: Floats, grain: Ints | int = 1
) -> int:
    """Return an upper bound on the pods of `each` exclusive devices that fit on the open nodes.

    Args:
        free: devices by node that are free, or will be whatever is stopped.
        each: devices of one pod.
        open_: the nodes it may use.
        victims: what may be stopped.
        over: by project, devices above its quota; infinite where that isn't what it gives for.
        grain: by project, what all that it holds is a multiple of.
    """
    pairs, pair = np.unique(victims.project * len(free) + victims.node, return_inverse=True)
    project, node = np.divmod(pairs, len(free))
    largest = np.zeros(len(pairs))
    np.maximum.at(largest, pair, victims.of_job)
    all_before_last = (np.ceil(over / grain) - 1) * grain
    before_last = all_before_last[project]
    given = np.minimum(np.bincount(pair, victims.milli, len(pairs)), before_last + largest)
    together = free + np.bincount(node, given, len(free))
    most = int((together // each)[open_].sum())
    if together.max(initial=0) >= 2 * each:
        return most
    needed = each - (together[node] - given)  # devices this project has to free there, for the pod to fit
    spans = np.zeros(len(over), np.bool_)
    # The last victim of such a project frees devices on several nodes
    spans[victims.project[victims.of_job > victims.milli]] = True
    enough = open_ & (together >= each)
    at = np.flatnonzero(enough[node] & (needed > 0) & np.isfinite(before_last) & ~spans[project])
    if not len(at):
        return most
    at = at[np.lexsort((needed[at], project[at]))]  # by project, the smallest need first
    first = np.searchsorted(project[at], project[at])
    total = np.cumsum(needed[at])
    within = total - (total - needed[at])[first] <= before_last[at]
    giving = np.bincount(project[at], minlength=len(over))
    kept_to = np.minimum(giving, np.bincount(project[at], within, len(over)) + 1)
    return min(most, int(enough.sum() - (giving - kept_to).max()))
