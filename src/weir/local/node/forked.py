"""Work in a child process, whose crash or hang can't harm the node process."""

import os
from collections.abc import Callable


def fork(work: Callable[[], object]) -> int:
    """Do work in a child of this process and return its pid; its exit code is 1 if the work raised."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def wait_for(child: int) -> bool:
    """Wait for a child; return True if its work raised nothing."""
    return os.waitpid(child, 0)[1] == 0
