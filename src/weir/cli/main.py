"""The entry of `weir`: which command was meant, and the exit code.

0 done, 1 it failed, 2 the request was wrong. The overview is printed from the list of commands
alone: people and completions ask for it all the time, and the command line library costs more to
import than everything else.
"""

import os
import sys
from collections.abc import Sequence

from weir import __version__
from weir.cli.commands import COMMANDS

FAILED, WRONG_REQUEST, INTERRUPTED = 1, 2, 130


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the words say; the exit code."""
    words = list(sys.argv[1:] if tokens is None else tokens)
    try:
        code = _answered(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _answered(words: list[str]) -> int:
    if words in ([], ["--help"], ["-h"]):
        print(overview())
        return 0
    if words == ["--version"]:
        print(__version__)
        return 0
    return _carried_out(words)


def overview() -> str:
    """What `weir --help` says."""
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:<{width}}  {command.does}" for command in COMMANDS]
    return "\n".join(
        [
            "Usage: weir COMMAND",
            "",
            "One pool of GPUs for many teams, with guaranteed quotas and honest answers.",
            "",
            "Commands:",
            *lines,
            "",
            "`weir COMMAND --help` tells more about one.",
        ]
    )


def _carried_out(words: list[str]) -> int:
    from cyclopts import App, CycloptsError

    app = App(name="weir", help_format="plaintext", help_formatter="plain", version=__version__)
    for command in COMMANDS:
        app.command(command.target, name=command.name, help=command.does)
    try:
        done = app(words, print_error=False, exit_on_error=False, result_action="return_value")
    except CycloptsError as error:
        print(f"weir: {' '.join(str(error).split())} See weir --help.", file=sys.stderr)
        return WRONG_REQUEST
    return done if isinstance(done, int) else 0


if __name__ == "__main__":
    sys.exit(main())
