"""A cluster as plain values, every attribute of every object in it: to show that nothing wrote into it."""

from typing import Any

import numpy as np

from weir.state.cluster import Cluster

DERIVED = {
    "RuntimeKey": {"believed", "ended", "from_s", "made", "total_s", "until_s"},
    "RuntimeSamples": {"_sums"},
}
"""Answers that an object keeps, by its class: each follows from facts alone, and is the same whenever it is asked."""


def facts(cluster: Cluster) -> Any:
    """Return all there is in a cluster; equal before and after if and only if nothing was written."""
    for job in cluster.jobs.values():  # these two are worked out from the pods when they are first asked for
        job.running_pods()
        job.devices_held()
    return _plain(cluster, {})


def _plain(value: Any, seen: dict[int, int]) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return [(_plain(key, seen), _plain(item, seen)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item, seen) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if id(value) in seen:
        return f"object {seen[id(value)]}"
    seen[id(value)] = len(seen)
    name = type(value).__name__
    slots = [slot for base in type(value).__mro__ for slot in getattr(base, "__slots__", ())]
    slots += list(getattr(value, "__dict__", ()))
    kept = [slot for slot in slots if slot not in DERIVED.get(name, ()) and hasattr(value, slot)]
    return name, [(slot, _plain(getattr(value, slot), seen)) for slot in kept]
