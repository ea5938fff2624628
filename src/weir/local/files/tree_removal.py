"""Deletion of directory trees of users: of any depth and any mode, without following links.

A job may nest directories to any depth, and remove all rights from them. The stack is explicit and short, so
neither recursion nor open files limit it. Standard library only, and little of it: supervisors delete trees.
"""

import os
from contextlib import suppress

_DEPTH_MAX = 16
"""Limit of levels that are open at a time; deeper directories are first moved to the top of the tree."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME_ALONE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that need no right to the directory."""


def remove_tree(above: int, name: str) -> None:
    """Delete a directory inside the open directory `above`, with its content as far as that is allowed.

    Something else of that name, such as a link, is deleted too.
    """
    with suppress(OSError):
        os.unlink(name, dir_fd=above)
        return
    directory = _entered(above, name)
    if directory is None:
        return
    try:
        empty(directory)
    finally:
        os.close(directory)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)


def remove_path(path: str) -> None:
    """Delete the directory at a path with everything in it, as far as that is allowed."""
    parent, _, name = path.rpartition("/")
    with suppress(OSError):
        above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_tree(above, name)
        finally:
            os.close(above)


def empty(top: int) -> None:
    """Delete everything in an open directory, as far as that is allowed."""
    _take_rights(top)
    stack: list[tuple[int, str, list[str]]] = [(top, "", _names(top))]
    try:
        while True:
            directory, own_name, left = stack[-1]
            if left:
                _remove_or_enter(stack, directory, left.pop())
                continue
            if len(stack) == 1:
                return
            stack.pop()
            os.close(directory)
            with suppress(OSError):
                os.rmdir(own_name, dir_fd=stack[-1][0])
    finally:
        for directory, _, _ in stack[1:]:
            os.close(directory)


def _remove_or_enter(stack: list[tuple[int, str, list[str]]], directory: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=directory)
        return
    inner = _entered(directory, name)
    if inner is None:
        return
    if len(stack) < _DEPTH_MAX:
        stack.append((inner, name, _names(inner)))
        return
    os.close(inner)
    moved = f"removed-{os.urandom(8).hex()}"
    with suppress(OSError):
        os.rename(name, moved, src_dir_fd=directory, dst_dir_fd=stack[0][0])
        stack[0][2].append(moved)


def _entered(above: int, name: str) -> int | None:
    """Open a directory, with the rights to empty it; None if it can't be opened."""
    for _ in range(2):
        with suppress(OSError):
            directory = os.open(name, _OPEN, dir_fd=above)
            _take_rights(directory)
            return directory
        with suppress(OSError):  # overlayfs creates a work directory without permissions
            directory = os.open(name, _NAME_ALONE, dir_fd=above)
            try:
                # By descriptor, because its name could become a link
                os.chmod(f"/proc/self/fd/{directory}", 0o700)
            finally:
                os.close(directory)
    return None


def _take_rights(directory: int) -> None:
    with suppress(OSError):
        os.fchmod(directory, 0o700)


def _names(directory: int) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
