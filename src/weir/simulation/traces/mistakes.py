"""Mistakes of a file, all reported at once with corrections; a flood of them is cut off."""

from weir.model.scenario import InvalidFile, Mistake

MOST = 20
"""Number of errors reported for one file."""


class TraceMistakes:
    """Collects the mistakes of one trace file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.total = 0
        self._first: list[Mistake] = []

    def add(self, line: int, text: str) -> None:
        """Add a mistake on a line."""
        self.total += 1
        if self.total <= MOST:
            self._first.append(Mistake(self.file, line, text))

    def refuse_if_any(self) -> None:
        """Refuse the file if anything is wrong with it.

        Raises:
            InvalidFile: with every mistake, up to MOST.
        """
        if not self.total:
            return
        if self.total > MOST:
            last = self._first[-1]
            rest = f"and {self.total - MOST} more mistakes like these: fix these first"
            self._first.append(Mistake(self.file, last.line, rest))
        raise InvalidFile(self._first)
