"""`weir snapshot`: the pool as a scenario file."""

import sys


def snapshot() -> int:
    """Print the pool as a scenario that replays its next decision, as in `weir snapshot > now.yaml`."""
    from weir.cli.connect import connect

    with connect() as pool:
        text = pool.snapshot()
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    return 0
