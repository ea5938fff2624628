"""Lines of a file's values, and the mistakes of a file."""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from weir.model.scenario import InvalidFile, Mistake

Step = str | int
Path = tuple[Step, ...]

MISTAKES_MAX = 1000
"""Limit of reported mistakes of a file."""
SUGGESTIONS_MAX = 10
"""Limit of suggestions in a file; later mistakes list the known names."""
_TEXT_LENGTH_MAX = 600


class SourceBranch:
    """A mapping or list of a file: its line, the lines of its keys, and its values."""

    __slots__ = ("below", "keys", "line")

    def __init__(self, line: int, below: "dict[str, Spot] | list[Spot]") -> None:
        self.line = line
        self.below = below
        self.keys: dict[str, int] = {}


Spot = SourceBranch | int
"""A branch, or the line of a plain value."""


def line_of(root: Spot, path: Sequence[Step]) -> int:
    """Return the line of a path, or of the last part of it that exists."""
    line = root if isinstance(root, int) else root.line
    spot = root
    for step in path:
        if isinstance(spot, int):
            break
        if isinstance(spot.below, dict):
            if not isinstance(step, str) or step not in spot.below:
                break
            line, spot = spot.keys[step], spot.below[step]
        else:
            if not isinstance(step, int) or not 0 <= step < len(spot.below):
                break
            spot = spot.below[step]
            line = spot if isinstance(spot, int) else spot.line
    return line


class LineCounter:
    """Converter of positions in a text to lines."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        offset = text.find("\n")
        while offset >= 0:
            self._starts.append(offset + 1)
            offset = text.find("\n", offset + 1)

    def line_at(self, position: int) -> int:
        """Return the line of a position, from 1."""
        return bisect_right(self._starts, position)


class Mistakes:
    """Collects the mistakes of a file, each with its line."""

    told_max = MISTAKES_MAX

    def __init__(self, file: str) -> None:
        self.file = file
        self.untold = 0  # number of mistakes beyond the kept ones
        self.suggestions_left = SUGGESTIONS_MAX
        self.root: Spot | Callable[[], Spot] = 1  # a function where the position is costly to compute
        self._mistakes: dict[Mistake, None] = {}

    def on(self, line: int, text: str) -> None:
        """Add a mistake on a line. Its text is shortened and escaped, so that it stays one line."""
        if not text.isprintable():
            text = "".join(
                character if character.isprintable() else ascii(character)[1:-1] for character in text
            )
        if len(text) > _TEXT_LENGTH_MAX:
            text = f"{text[: _TEXT_LENGTH_MAX // 2]} ... {text[-_TEXT_LENGTH_MAX // 2 :]}"
        self._mistakes.setdefault(Mistake(self.file, line, text))

    def add(self, path: Sequence[Step], text: str) -> None:
        """Add a mistake at a path."""
        self.on(self.line(path), text)

    def line(self, path: Sequence[Step]) -> int:
        """Return the line of a path."""
        if callable(self.root):
            self.root = self.root()
        return line_of(self.root, path)

    def __bool__(self) -> bool:
        return bool(self._mistakes)

    def refuse_if_any(self) -> None:
        """Refuse the file if anything is wrong with it.

        Raises:
            InvalidFile: with every mistake, by line, up to MISTAKES_MAX.
        """
        if not self._mistakes:
            return
        mistakes = sorted(self._mistakes, key=lambda mistake: mistake.line)
        left = max(0, len(mistakes) - MISTAKES_MAX) + self.untold
        if left:
            reported = mistakes[:MISTAKES_MAX]
            rest = f"and {left} more mistakes; fix the ones above first"
            mistakes = [
                *reported,
                Mistake(self.file, mistakes[min(len(mistakes) - 1, MISTAKES_MAX)].line, rest),
            ]
        raise InvalidFile(mistakes)
