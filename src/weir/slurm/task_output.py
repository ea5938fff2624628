"""Output of a task with its number before each line."""

import os

_BLOCK = 1 << 16
_LINE_MAX = 1 << 16


class LinePrefixer:
    """Copies whole lines, each with a prefix."""

    def __init__(self, prefix: bytes, target: int) -> None:
        self._prefix = prefix
        self._target = target
        self._rest = b""

    def copy(self, fd: int, *, last: bool = False) -> bool:
        """Copy the readable output; return False at the end. `last`: an empty pipe is the end, too."""
        try:
            block = os.read(fd, _BLOCK)
        except BlockingIOError:
            return not last
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LINE_MAX:
            lines.append(self._rest)
            self._rest = b""
        self._write(b"".join(self._prefix + line + b"\n" for line in lines))
        if not block:
            self.finish()
        return bool(block)

    def finish(self) -> None:
        """Write an incomplete last line."""
        if self._rest:
            self._write(self._prefix + self._rest + b"\n")
            self._rest = b""

    def _write(self, text: bytes) -> None:
        while text:
            text = text[os.write(self._target, text) :]
