"""`weir snapshot`: the pool as a scenario file."""

import sys

from weir.cli.pool.connect import connect


def snapshot(*, workloads: bool = True) -> int:
    """Print the pool as a scenario that replays its next decision, as in `weir snapshot > now.yaml`.

    Parameters
    ----------
    workloads
        Include the workloads; --no-workloads prints the cluster alone, for `weir simulate --cluster`.
    """
    with connect() as pool:
        text = pool.snapshot(workloads=workloads)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    return 0
