"""Entry point of `weir`: it finds the command and returns the exit code.

The exit code is 0 on success, 1 on failure, 2 for an invalid request, and 3 if the server can't be reached.
The overview is printed from the list of commands alone, without the import of cyclopts, which costs more than
everything else.
"""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weir import __version__
from weir.cli.commands import ALIASES, COMMANDS, TOPICS
from weir.cli.options.mistakes import CommandError
from weir.client.errors import PoolError, Refused, Unreachable

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError

    from weir.model.scenario import InvalidFile

FAILED, WRONG_REQUEST, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130
GARBAGE_AFTER = 200_000
"""New objects after which Python's collector runs."""
_NAME_AND_COMMAND = ("exec", "shell", "ssh", "jupyter", "code")
_TAKE_COMMANDS = ("submit", *_NAME_AND_COMMAND)


def main(tokens: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code."""
    _open_streams()
    _start_fast()
    words = list(sys.argv[1:] if tokens is None else tokens)
    words = [*words[1:], "--help"] if words[:1] == ["help"] else words
    words[:1] = ALIASES.get(words[0], words[:1]) if words else []
    try:
        code = _answered(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _write_no_more()
        return FAILED
    except OSError as error:
        _write_no_more()
        named = "" if error.filename is None else f"{error.filename}: "
        _complain(f"{named}{error.strerror or error}.")
        return FAILED
    return code


def _write_no_more() -> None:
    """Write the output so far, or discard it: the interpreter would try again at exit."""
    with suppress(OSError):
        sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Open closed standard streams on the null device, before other files get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _start_fast() -> None:
    """Import less: a command that lists a pool takes longer to import than to run.

    httpx imports its own command line with click, rich and pygments if they are installed; Python can't
    import a module that is None. pydantic searches all installed packages for plugins. Little of what imports
    create is garbage.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("httpx._main", None)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(GARBAGE_AFTER)


def _answered(words: list[str]) -> int:
    if words in ([], ["--help"], ["-h"]):
        print(overview())
        return 0
    if words == ["--version"]:
        print(__version__)
        return 0
    if words[:1] == ["__complete"]:
        from weir.cli.help.completion import complete

        return complete(words[1:])
    return _carried_out(words)


def overview() -> str:
    """Return the text of `weir --help`."""
    width = max(len(command.name) for command in COMMANDS)
    lines = [
        "Usage: weir COMMAND",
        "",
        "One pool of GPUs for many teams, with guaranteed quotas and honest answers.",
    ]
    for topic in TOPICS:
        lines += ["", f"{topic.title}:"]
        lines += [f"  {command.name:<{width}}  {command.does}" for command in topic.commands]
    return "\n".join([*lines, "", "`weir COMMAND --help` describes a command."])


def _carried_out(words: list[str]) -> int:
    from cyclopts import App, CycloptsError

    from weir.cli.help.extras import how_to_install, missing_extra
    from weir.cli.help.formatter import Help
    from weir.cli.help.other_actions import refuse_other_action, refuse_words_before_command
    from weir.cli.options.negative_values import with_negative_values

    app = App(name="weir", help_format="plaintext", help_formatter=Help(), version=__version__)
    for command in COMMANDS:
        app.command(command.target, name=command.name)
    words = with_negative_values(words)
    try:
        refuse_other_action(app, words)
        refuse_words_before_command(app, words)
        words = _with_name(app, words)
        done = app(words, print_error=False, exit_on_error=False, result_action="return_value")
    except CycloptsError as error:
        _complain(_misunderstood(words, error))
        return WRONG_REQUEST
    except CommandError as error:
        _complain(f"{error}.")
        return error.code
    except PoolError as error:
        _complain(str(error))
        is_ours = isinstance(error, Refused) and error.is_ours
        return UNREACHABLE if isinstance(error, Unreachable) else WRONG_REQUEST if is_ours else FAILED
    except ModuleNotFoundError as error:
        needed = next((command.extra for command in COMMANDS if command.name == words[0]), "")
        extra = missing_extra(error.name or "", needed, words)
        if extra is None:
            raise
        _complain(f"{how_to_install(words[0], extra)}.")
        return FAILED
    except _invalid_file() as refused:
        sys.stdout.flush()
        print(*refused.mistakes, sep="\n", file=sys.stderr)
        return WRONG_REQUEST
    return done if isinstance(done, int) else 0


def _invalid_file() -> "type[InvalidFile]":
    """Return the error of a file with mistakes. Few commands read files, so it is imported at an error."""
    from weir.model.scenario import InvalidFile

    return InvalidFile


def _with_name(app: "App", words: list[str]) -> list[str]:
    """Return the words with an empty name before -- if the name is missing."""
    if words[0] not in _NAME_AND_COMMAND or "--" not in words:
        return words
    index = words.index("--")
    _, bound, _ = app.parse_args([*words[:index], "--", ""], print_error=False, exit_on_error=False)
    return words if bound.args != ("",) else [*words[: index + 1], "", *words[index + 1 :]]


def _complain(text: str) -> None:
    """Print an error as one line, after the output so far."""
    from weir.cli.output.terminal import plain

    sys.stdout.flush()
    print(f"weir: {plain(text)}", file=sys.stderr)


def _misunderstood(words: Sequence[str], error: "CycloptsError") -> str:
    from weir.cli.help.other_actions import other_tools_command
    from weir.cli.help.usage_errors import unknown_word, usage_error

    if (right := other_tools_command(words, error)) is not None:
        return right
    if words[0] in _TAKE_COMMANDS and "--" not in words and (unknown := unknown_word(error)):
        return f"{unknown} The command that is to run goes after --: weir {words[0]} ... -- COMMAND."
    named = error.command_chain or ()
    return usage_error(error, " ".join(("weir", *named)))


if __name__ == "__main__":
    sys.exit(main())
