"""Files with several workloads: `weir submit -f` queues all of them, or none."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir.cli.output.formatting import counted
from weir.cli.output.outputs import print_made
from weir.cli.output.terminal import plain
from weir.cli.pool.connect import connect
from weir.cli.pool.default_project import default_project
from weir.cli.submissions.submit_options import WorkloadOptions


def submit_batch(
    body: Mapping[str, Any],
    words: Mapping[str, Any],
    options: WorkloadOptions,
    output: str,
    *,
    waits: bool,
) -> int:
    """Queue the workloads of a file. Options are defaults of all of them, in place of those of the file.

    Raises:
        ValueError: an option means one workload alone.
    """
    if waits:
        raise ValueError("--wait, --follow: the file has several workloads; wait for one by its name")
    for option in ("name", "command"):
        if option in words:
            raise ValueError(f"{option}: the file has several workloads; write it there")
    defaults = {**body.get("defaults", {}), **words}
    if "elastic" in words:
        least, most = words["elastic"]
        defaults["elastic"] = f"{least}:{most}"
    is_missing = any(
        isinstance(workload, Mapping) and "project" not in workload for workload in body["workloads"]
    )
    with connect(namespace=options.placement.namespace) as pool:
        if "project" not in defaults and is_missing:
            defaults["project"] = default_project(pool, None)
        if pool.address.is_loopback:
            defaults["directory"] = str(Path(defaults.get("directory", "")).absolute())
        options.add_variables(defaults, defaults, is_local=pool.address.is_loopback)
        made = pool.submit_batch(body["workloads"], defaults=defaults)
    names = ", ".join(row.name for row in made.items)
    done = f"{plain(names)} {'is' if made.total == 1 else 'are'} queued"
    if print_made(made, output, done, *(row.name for row in made.items)):
        print(f"queued: {counted(made.total, 'workload')}", file=sys.stderr)
    return 0
