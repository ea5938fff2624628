"""The part of a Job that runs its command once for each index of an array.

The pods of a Job are numbered from 0. For an array with other indices a shell makes the index of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from weir.cli.cluster.errors import wrong
from weir.model.array_indices import ArrayIndices, read_indices

PARALLEL_MAX = 10_000
"""Pods that one Job may have at once: each is an object of the API server while it waits, too."""
LIST_BYTES_MAX = 64 << 10
"""Size of the list of indices that are no range: a variable of every pod."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_FROM_RANGE = "$((WEIR_ARRAY_MIN + WEIR_ARRAY_STEP * JOB_COMPLETION_INDEX))"
_FROM_LIST = (
    "p=$JOB_COMPLETION_INDEX; for i in $WEIR_ARRAY_INDICES; do [ $p = 0 ] && break; p=$((p - 1)); done; "
)
_RUN = 'export WEIR_ARRAY_INDEX={}; exec "$0" "$@"'


def array_spec(written: str, retries: int, pods: int) -> dict[str, Any]:
    """Return the fields of a Job's spec for an array. A failed index doesn't stop the others.

    Raises:
        PoolError: a Job can't express the array.
    """
    indices = read_indices(written)
    size = len(indices)
    if pods != 1:
        raise wrong(f"array: an index of a Job has one pod, and {pods} are asked for; write pods: 1")
    parallel = size if indices.at_once is None else min(size, indices.at_once)
    if parallel > PARALLEL_MAX:
        raise wrong(
            f"array: {parallel:,} pods would exist at once, and {PARALLEL_MAX:,} may; "
            f"write {written.partition('%')[0]}%{PARALLEL_MAX}"
        )
    return {
        "parallelism": parallel,
        "completions": size,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": retries,
    }


def array_env(written: str) -> list[dict[str, Any]]:
    """Return the variables of the pods of an array.

    Raises:
        PoolError: its indices are too many for a list.
    """
    array = read_indices(written)
    indices = array.indices
    fixed = {"COUNT": len(indices), "MIN": indices[0], "MAX": indices[-1], "STEP": array.step}
    variables = [{"name": f"WEIR_ARRAY_{name}", "value": str(value)} for name, value in fixed.items()]
    if _is_from_zero(array):
        return [{"name": "WEIR_ARRAY_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}, *variables]
    if not isinstance(indices, range):
        listed = " ".join(map(str, indices))
        if len(listed) > LIST_BYTES_MAX:
            raise wrong(
                f"array: a list of {len(indices):,} indices is too long for a Job; write one range such as "
                "1-50000, or several arrays"
            )
        variables.append({"name": "WEIR_ARRAY_INDICES", "value": listed})
    return variables


def array_command(written: str, command: Sequence[str]) -> list[str]:
    """Return the command of the pods of an array, which sets the index."""
    array = read_indices(written)
    if _is_from_zero(array):
        return list(command)
    is_range = isinstance(array.indices, range)
    script = _RUN.format(_FROM_RANGE) if is_range else _FROM_LIST + _RUN.format("$i")
    return ["sh", "-c", script, *command]


def array_position(index: int, variables: Mapping[str, str], size: int) -> int | None:
    """Return the number of the pod of an index, by the variables of an Indexed Job; None if it has none."""
    listed = variables.get("WEIR_ARRAY_INDICES")
    if listed is not None:
        indices: Sequence[int] = [int(word) for word in listed.split() if word.isdigit()]
    else:
        least, step = variables.get("WEIR_ARRAY_MIN", ""), variables.get("WEIR_ARRAY_STEP", "")
        is_stated = all(word.isascii() and word.isdigit() for word in (least, step)) and int(step) > 0
        indices = range(int(least), int(least) + size * int(step), int(step)) if is_stated else range(size)
    return indices.index(index) if index in indices else None


def _is_from_zero(array: ArrayIndices) -> bool:
    """Return True if the indices are the numbers of the pods."""
    return array.indices[0] == 0 and array.indices[-1] == len(array) - 1
