"""Commands and options that the docs name exist, also in blocks that no test runs."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError, UnknownCommandError, UnknownOptionError
from tests.e2e.documented_commands import blocks

from weir.cli.commands import ALIASES, COMMANDS
from weir.cli.help.other_actions import refuse_other_action
from weir.cli.options.mistakes import CommandError

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("[!_]*/**/*.md")), ROOT / "docs/glossary.md")
OTHER_TOOLS = {"COMMAND", "COMMAND --help", "scontrol hold 7", "scontrol show job 7", "get pods"}
"""Words after `weir` that are no commands, on pages that say so."""
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(?:sudo )?weir ([^`]+)`")
_PROGRAM = re.compile(r"(?:^|[|(&] *|sudo )(?:[A-Z_]+=\S+ )*(?:/opt/weir/bin/)?weir +(.+)")
_END = {"|", ">", "&&", "2>", "<", ";"}
_ONE_WORD = re.compile(r"\$\([^)]*\)")


def _named(page: Path) -> Iterator[str]:
    """Yield all that follows `weir` on a page, in blocks and in sentences."""
    for block in blocks(page):
        for command in block.commands:
            yield from (found[1] for part in command.text.split(" && ") if (found := _PROGRAM.search(part)))
    yield from (
        " ".join(words.split()) for words in _INLINE.findall(_FENCED.sub("", page.read_text("utf-8")))
    )


def _words(text: str) -> list[str]:
    words = shlex.split(_ONE_WORD.sub("X", text), comments=True)
    end = next((at for at, word in enumerate(words) if word in _END), len(words))
    return [*ALIASES.get(words[0], words[:1]), *words[1:end]]


def _trouble(app: App, text: str) -> str | None:
    """Return the complaint about a command or an option that doesn't exist; None if all exist."""
    words = _words(text)
    if words[:1] in (["--help"], ["--version"]):
        return None
    if words[0] in ("install", "node") and "--" in words:
        at = words.index("--")
        return _trouble(app, shlex.join(words[:at])) or _trouble(app, shlex.join(["up", *words[at + 1 :]]))
    try:
        refuse_other_action(app, words)
        app.parse_args(words, print_error=False, exit_on_error=False)
    except (CommandError, UnknownCommandError, UnknownOptionError) as error:
        return str(error)
    except CycloptsError:  # a value is a placeholder, or is left out
        return None
    return None


@pytest.fixture(scope="module")
def app() -> App:
    """Return all commands of `weir`."""
    app = App(name="weir")
    for command in COMMANDS:
        app.command(command.target, name=command.name)
    return app


def test_all_commands_and_options_of_the_docs_exist(app: App) -> None:
    named = {(page, text) for page in PAGES for text in _named(page) if text not in OTHER_TOOLS}
    assert len(named) > 400
    wrong = {
        f"{page.relative_to(ROOT)}: weir {text}": trouble
        for page, text in named
        if (trouble := _trouble(app, text)) is not None
    }
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        "lst",
        "project remove vision",
        "submit --gpu-count 2",
        "submit --gpu-count 2 -- true",
        "kube manifests --dashboard-uri https://weir | kubectl apply -f -",
        "install -- --log-fromat json",
        "list --al > file",
    ],
)
def test_what_does_not_exist_is_found(app: App, text: str) -> None:
    assert _trouble(app, text) is not None
