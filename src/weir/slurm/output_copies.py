"""Copy of a job's output in a file of the user."""

import os
from contextlib import suppress
from pathlib import Path


class OutputCopy:
    """A file that gets a copy of the log. A full disk ends the copy, never the job."""

    def __init__(self, path: Path, *, append: bool) -> None:
        """Open the file.

        Raises:
            OSError: it can't be opened.
        """
        self.path = path
        how = os.O_APPEND if append else os.O_TRUNC
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | how, 0o666)
        self.problem = ""

    def write(self, block: bytes) -> None:
        """Append a block; `problem` says why the copy ended."""
        while block and not self.problem:
            try:
                block = block[os.write(self._fd, block) :]
            except OSError as error:
                self.problem = f"{self.path} has no more output from here on: {error.strerror}"
                with suppress(OSError):
                    os.close(self._fd)
