"""Python's garbage collector, kept away from long lists.

While a hundred thousand objects are built it would go through all of them again and again and find
nothing: that is most of the time decoding takes. What stays is then moved out of its sight.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_pauses = 0
_counting = threading.Lock()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection; pauses may overlap, of several threads too."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    global _pauses  # noqa: PLW0603 - there is one collector in a process
    with _counting:
        _pauses += change
        if _pauses:
            gc.disable()
        else:
            gc.enable()


def thaw() -> None:
    """Include frozen objects in garbage collection again, and free the garbage among them."""
    gc.unfreeze()
    gc.collect()


def freeze() -> None:
    """Exempt the present objects from garbage collection.

    Within a pause, else the collector looks at it all once more. What is then garbage already isn't found any
    more, unless nothing refers to it, which frees it anyway: of what decoding leaves that is next to nothing.
    """
    gc.freeze()
