"""The part of a Job that runs its command once for each index of an array."""

from typing import Any

from weir.cli.cluster.errors import wrong
from weir.model.array_indices import read_indices

PARALLEL_MAX = 10_000
"""Pods that one Job may have at once: each is an object of the API server while it waits, too."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def array_spec(written: str, retries: int, pods: int) -> dict[str, Any]:
    """Return the fields of a Job's spec for an array. A failed index keeps no other from running.

    Raises:
        PoolError: a Job can't express the array.
    """
    indices = read_indices(written)
    size = len(indices)
    if pods != 1:
        raise wrong(f"array: an index of a Job has one pod, and {pods} are asked for; write pods: 1")
    if indices.indices[-1] != size - 1:
        raise wrong(f"array: the indices of a Job begin at 0 and leave none out; write 0-{size - 1}")
    parallel = size if indices.at_once is None else min(size, indices.at_once)
    if parallel > PARALLEL_MAX:
        raise wrong(
            f"array: {parallel:,} pods would exist at once, and {PARALLEL_MAX:,} may; "
            f"write 0-{size - 1}%{PARALLEL_MAX}"
        )
    return {
        "parallelism": parallel,
        "completions": size,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": retries,
    }


def array_env(written: str) -> list[dict[str, Any]]:
    """Return the variables of the pods of an array."""
    size = len(read_indices(written))
    fixed = {"COUNT": size, "MIN": 0, "MAX": size - 1, "STEP": 1}
    return [
        {"name": "WEIR_ARRAY_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}},
        *({"name": f"WEIR_ARRAY_{name}", "value": str(value)} for name, value in fixed.items()),
    ]
