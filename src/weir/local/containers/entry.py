"""First process of a pod in a container: it pulls the image, and then becomes the runtime.

It runs as the pod's user, in the pod's control groups. All its children stay in these groups, and all its
files belong to that user.

Standard library only: it runs at each start.
"""

import json
import os
import sys
from typing import NoReturn

from weir.local.containers import leftovers, podman, user_namespace
from weir.local.containers.images import ImageNotAvailable
from weir.local.containers.launch import SPEC
from weir.local.containers.leftovers import AGAIN, NEVER
from weir.local.containers.podman import ContainerRefused, ContainerStart


def main() -> int:
    """Become the runtime; return an exit code if that is impossible."""
    _, *command = sys.argv[1:]
    spec = json.loads(os.environ.pop(SPEC))
    try:
        _begin(ContainerStart.of(spec, command))
    except ImageNotAvailable as refusal:  # retried, because a registry may answer later
        return _refuse(str(refusal), AGAIN)
    except ContainerRefused as refusal:
        return _refuse(str(refusal), NEVER)
    except OSError as failure:
        return _refuse(f"{f'{failure.filename}: ' if failure.filename else ''}{failure.strerror}", AGAIN)


def _refuse(why: str, code: int) -> int:
    """Say why the container can't be started, in the output and to the supervisor; return the exit code."""
    sentence = f"Its container can't be started: {why.rstrip('.')}."
    print(f"weir: {sentence[0].lower()}{sentence[1:]}", file=sys.stderr, flush=True)
    leftovers.write_problem(os.environ["WEIR_POD_DIRECTORY"], sentence)
    return code


def _begin(container: ContainerStart) -> NoReturn:
    """Become the runtime.

    Raises:
        ContainerRefused, ImageNotAvailable, OSError: the container can't be started.
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
