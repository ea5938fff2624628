"""`weir completion`: scripts for shells, and the candidates that they request.

The scripts pass the words of the command line to `weir`, so they never go out of date. cyclopts generates
scripts too, but those can't complete names that the pool knows. A pool has 0.4 seconds to answer.
"""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode, urlsplit

from weir.cli.commands import ALIASES, COMMANDS

if TYPE_CHECKING:
    from cyclopts import App

_PATIENCE_S = 0.4
_NAMES_MAX = 200
_VALUES_OF = {
    "--project": "projects",
    "-p": "projects",
    "--department": "departments",
    "-d": "departments",
    "--parent": "departments",
    "--template": "templates",
    **dict.fromkeys(("--after", "--after-ok", "--after-not-ok", "--after-any"), "ended"),
    "--node": "nodes",
    "--secret": "secrets",
}
_WORDS_OF = {"--status": ("pending", "starting", "running", "stopping", "succeeded", "failed", "stopped")}
_NAMES_AFTER = {
    **dict.fromkeys(("sweep show", "sweep best", "sweep stop", "sweep delete"), "sweeps"),
    **dict.fromkeys(
        tuple(f"schedule {word}" for word in ("show", "run", "suspend", "resume", "delete")), "schedules"
    ),
    **dict.fromkeys(("nodes show", "nodes drain", "nodes undrain", "drain", "undrain"), "nodes"),
    **dict.fromkeys(("token revoke", "token rotate"), "tokens"),
    **dict.fromkeys(("notify delete", "notify test"), "notifications"),
    "secret delete": "secrets",
    "maintenance delete": "windows",
    **dict.fromkeys(("project create", "project list", "department create", "department list"), ""),
    "template list": "",
}
"""Kinds of names after commands of groups; the others are those of the group."""
_ONCE = ("projects", "departments", "sweeps", "schedules", "nodes")
"""Kinds of which a command takes one name."""
_QUERIES: dict[str, tuple[str, dict[str, str]]] = {
    "workloads": ("workloads", {"limit": str(_NAMES_MAX)}),
    "ended": ("workloads", {"limit": str(_NAMES_MAX), "all": "true"}),
    "projects": ("projects", {}),
    "departments": ("departments", {}),
    "templates": ("projects/{project}/templates", {}),
    "secrets": ("projects/{project}/secrets", {}),
    "windows": ("maintenance", {}),
    **{kind: (kind, {}) for kind in ("sweeps", "schedules", "nodes", "tokens", "notifications")},
}

BASH = """\
_weir() {
    local IFS=$'\\n'
    COMPREPLY=($(weir __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default
}
complete -F _weir weir
"""
ZSH = """\
#compdef weir
_weir() {
    local -a found
    found=(${(f)"$(weir __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _weir weir
"""
FISH = """\
function __weir_complete
    set -l words (commandline -opc) (commandline -ct)
    weir __complete $words[2..-1] 2>/dev/null
end
complete -c weir -a '(__weir_complete)'
"""


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell.

    bash: eval "$(weir completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish:
    weir completion fish > ~/.config/fish/completions/weir.fish

    Parameters
    ----------
    shell
        The shell.
    """
    print({"bash": BASH, "zsh": ZSH, "fish": FISH}[shell], end="")
    return 0


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word, one a line; print nothing on any error."""
    *before, begun = words or [""]
    with suppress(Exception):
        for word in _candidates(before, begun):
            if word.startswith(begun):
                print(word)
    return 0


def _candidates(before: Sequence[str], begun: str) -> Iterator[str]:
    if before:
        before = [*ALIASES.get(before[0], before[:1]), *before[1:]]
    if before in ([], ["help"]):
        yield from (command.name for command in COMMANDS)
        return
    if "--" in before:
        return
    if begun.startswith("-") and (before[0] == "sbatch" or before[:2] == ["import", "sbatch"]):
        from weir.slurm.options import OPTIONS

        yield from (f"--{option.name}" for option in OPTIONS)
        return
    command = next((command for command in COMMANDS if command.name == before[0]), None)
    if command is None:
        return
    app, path = _app(command.target, command.name), 1
    while path < len(before) and before[path] in app and not before[path].startswith("-"):
        app, path = app[before[path]], path + 1
    if path == len(before) and not begun.startswith("-"):
        yield from (name for name in app if not name.startswith("-"))
    option = before[-1]
    if option in _VALUES_OF:
        yield from _names(_VALUES_OF[option], before)
    elif option in _WORDS_OF:
        yield from _WORDS_OF[option]
    else:
        yield from _words_of(app, option, begun)
        if not begun.startswith("-") and not option.startswith("-"):
            kind = _NAMES_AFTER.get(" ".join(before[:path]), command.names)
            taken = before[path:]
            if kind and not (taken and kind in _ONCE):
                yield from (name for name in _names(kind, before) if name not in taken)


def _app(target: str, name: str) -> "App":
    from importlib import import_module

    from cyclopts import App

    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    if isinstance(command, App):
        return command
    app = App(name=name)
    app.default(command)
    return app


def _words_of(app: "App", last: str, begun: str) -> Iterator[str]:
    """Yield the choices of the option before the word or of the argument; else the options."""
    for argument in app.assemble_argument_collection():
        names = [name for name in argument.names if name.startswith("-")]
        if last in names:
            yield from argument.get_choices() or ()
        elif begun.startswith("-"):
            yield from (name for name in names if name.startswith("--") or not begun.startswith("--"))
        elif not names and not last.startswith("-"):
            yield from argument.get_choices() or ()


def _names(query: str, before: Sequence[str]) -> list[str]:
    """Return names from the pool; those of a project's objects need the project on the command line."""
    from weir.client.address import find
    from weir.client.listener import check

    address = find()
    path, params = _QUERIES[query]
    path = path.format(project=quote(_project(before), safe=""))
    parts = urlsplit(address.url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
    try:
        if address.home is not None:
            connection.sock = _connected(address.home)
        else:
            connection.connect()
        if address.uids is not None and parts.scheme == "http":
            check(connection.sock, address.uids, address.url)
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        connection.request("GET", f"{parts.path}/api/v1/{path}?{urlencode(params)}", headers=headers)
        answer = connection.getresponse()
        body: Any = json.loads(answer.read()) if answer.status == 200 else {}
    finally:
        connection.close()
    return list(dict.fromkeys(str(item.get("name") or item["id"]) for item in body.get("items", ())))


def _project(before: Sequence[str]) -> str:
    """Return the project of the command line, or of the environment."""
    named = [value for option, value in pairwise(before) if option in ("--project", "-p")]
    return named[-1] if named else os.environ.get("WEIR_PROJECT", "")


def _connected(home: Path) -> socket.socket:
    from weir.client.address import open_socket_path

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_PATIENCE_S)
        with open_socket_path(home) as path:
            connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
