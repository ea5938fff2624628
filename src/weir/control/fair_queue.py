"""Queue in which namespaces take turns, so that the work of one doesn't delay that of the others.

A namespace has a line of its own, and gives one entry whenever its turn comes. A namespace without entries
has no turn, and costs no memory. A namespace that comes back begins at the end of the round. So an entry at
the front of its line waits for at most one entry of every other namespace.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
U = TypeVar("U")


class FairQueue(Generic[T]):
    """Queue of entries by namespace, each once at most. Adding, taking and removing take constant time."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()  # the next turn first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, namespace: str, entry: T) -> None:
        """Put an entry at the end of the line of its namespace, unless it is in the line."""
        line = self._lines.get(namespace)
        if line is None:
            line = self._lines[namespace] = OrderedDict()
        self._count -= len(line)
        line.setdefault(entry)
        self._count += len(line)

    def take(self) -> T | None:
        """Remove and return the next entry of the namespace whose turn it is; None if the queue is empty."""
        if not self._lines:
            return None
        namespace = next(iter(self._lines))
        entry = self.take_oldest(namespace)
        if namespace in self._lines:
            self._lines.move_to_end(namespace)
        return entry

    def take_oldest(self, namespace: str) -> T:
        """Remove and return the first entry of a namespace, without regard to turns."""
        line = self._lines[namespace]
        entry, _ = line.popitem(last=False)
        self._removed(namespace, line)
        return entry

    def remove(self, namespace: str, entry: T) -> None:
        """Remove an entry, if the queue has it."""
        line = self._lines.get(namespace)
        if line is not None and entry in line:
            del line[entry]
            self._removed(namespace, line)

    def _removed(self, namespace: str, line: OrderedDict[T, None]) -> None:
        self._count -= 1
        if not line:
            del self._lines[namespace]

    def first_of_lines(self) -> Iterator[T]:
        """Yield the first entry of each line."""
        return (next(iter(line)) for line in self._lines.values())

    def to_shorten(self, namespace: str) -> str:
        """Return the namespace that has to lose an entry of a full queue, so that this one can add one.

        A namespace with its share of the entries loses one itself. For others, the lines are searched for the
        longest one. The queue isn't empty.
        """
        own = self._lines.get(namespace)
        if own is not None and len(own) * len(self._lines) >= self._count:
            return namespace
        return max(self._lines, key=lambda other: len(self._lines[other]))


class Turns:
    """Turns of namespaces over several rounds, each of which takes some of the entries.

    A namespace that returns has its turn after all that wait, so it gains nothing by leaving.
    """

    def __init__(self) -> None:
        # Number of the last turn of each namespace with entries, or of the last one before they came
        self._last: dict[Hashable, int] = {}
        self._count = 0

    def take(self, entries: Iterable[U], namespace: Callable[[U], Hashable]) -> Iterator[U]:
        """Yield entries, one of each namespace in turn; the namespace with the oldest turn begins.

        The caller takes as many as it can use, and may change the collection of the entries meanwhile.
        """
        lines: dict[Hashable, list[U]] = {}
        for entry in entries:
            lines.setdefault(namespace(entry), []).append(entry)
        self._last = {name: self._last.get(name, self._count) for name in lines}
        order = sorted(lines, key=self._last.__getitem__)
        waiting = deque((name, iter(lines[name])) for name in order)
        while waiting:
            name, line = waiting.popleft()
            for entry in line:
                self._count += 1
                self._last[name] = self._count
                yield entry
                waiting.append((name, line))
                break
