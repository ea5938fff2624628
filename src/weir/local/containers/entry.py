"""First process of a pod in a container: it gets the image, and becomes the runtime.

It runs as the pod's user, in the pod's control groups. Everything it starts stays in them, and all files it
makes belong to that user. Standard library only: it runs at each start.
"""

import json
import os
import sys
from typing import NoReturn

from weir.local.containers import podman, user_namespace
from weir.local.containers.images import ImageNotAvailable
from weir.local.containers.launch import SPEC
from weir.local.containers.podman import ContainerRefused, ContainerStart

NOT_STARTED = 125
"""Exit code of a container that couldn't be started, as the runtimes have it."""


def main() -> int:
    """Become the runtime; return an exit code if that is impossible."""
    _, *command = sys.argv[1:]
    spec = json.loads(os.environ.pop(SPEC))
    try:
        _begin(ContainerStart.of(spec, command))
    except (ContainerRefused, ImageNotAvailable) as refusal:
        print(
            f"weir: the container can't be started: {str(refusal).rstrip('.')}.", file=sys.stderr, flush=True
        )
    except OSError as failure:
        place = f"{failure.filename}: " if failure.filename else ""
        print(
            f"weir: the container can't be started: {place}{failure.strerror}.", file=sys.stderr, flush=True
        )
    return NOT_STARTED


def _begin(container: ContainerStart) -> NoReturn:
    """Become the runtime.

    Raises:
        ContainerRefused, ImageNotAvailable, OSError: it can't be started.
    """
    if container.problem:
        raise ContainerRefused(container.problem)
    try:
        user_namespace.enter_own()
        user_namespace.mount_run_directory()
        user_namespace.hide_unused_groups()
    except OSError as failure:
        sentence = f"the kernel doesn't let users make a user namespace: {failure.strerror}"
        raise ContainerRefused(f"{sentence}. `weir doctor` says how to allow it") from None
    podman.become(container)


if __name__ == "__main__":
    sys.exit(main())
