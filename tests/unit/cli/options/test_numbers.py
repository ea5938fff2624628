"""Numbers and other words of a command line that can't be taken: each is named, with what to write instead."""

from collections.abc import Iterator

import pytest
from cyclopts import App, Argument
from tests.unit.client.fake import Fake, page, row

from weir.cli.commands import COMMANDS
from weir.cli.main import main


def _arguments(app: App) -> Iterator[Argument]:
    """Yield the arguments of all commands of an app."""
    for name in app:
        if not name.startswith("-"):
            yield from _arguments(app[name])
    if app.default_command is not None:
        yield from app.assemble_argument_collection()


def test_every_number_is_read_as_it_is_written() -> None:
    app = App()
    for command in COMMANDS:
        app.command(command.target, name=command.name)
    numbers = [each for each in _arguments(app) if "int" in str(each.hint) or "float" in str(each.hint)]
    assert len(numbers) > 50
    rounded = {
        each.name for each in numbers if each.parameter.converter is None and "Literal" not in str(each.hint)
    }
    assert rounded == set(), "the library rounds 1.5 to 2, and reads 0x10 as 16"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("list --limit 1.5", "--limit: '1.5' is no whole number; write 0 to 1000000."),
        ("list --limit -1", "--limit: -1 is too small; write 0 to 1000000."),
        ("list --limit 99999999", "--limit: 99999999 is too large; write 0 to 1000000."),
        ("list --limit 0x10", "--limit: '0x10' is no whole number; write 0 to 1000000."),
        ("list --limit \u0661", "--limit: '\u0661' is no whole number; write 0 to 1000000."),
        ("list --limit 1_0", "--limit: '1_0' is no whole number; write 0 to 1000000."),
        ("list --limit=", "--limit: '' is no whole number; write 0 to 1000000."),
        (f"list --limit {'9' * 5000}", f"--limit: '{'9' * 40}...' is no whole number; write 0 to 1000000."),
        ("logs a --index 1.5", "--index: '1.5' is no whole number; write 0 or more."),
        ("drain vm --gpu 1.5", "--gpu: '1.5' is no whole number; write 0 or more."),
        ("token revoke 1.5", "NUMBER: '1.5' is no whole number; write 1 or more."),
        ("submit -p v --retries 1.5 -- a", "--retries: '1.5' is no whole number; write 0 or more."),
        ("project set v --priority 1.5", "--priority: '1.5' is no whole number; write one such as 4."),
        ("list --limit 3 --limit 4", "--limit is given twice; leave one out."),
        ("list -o xml", "-o: 'xml' is unknown; write table, wide, json or yaml."),
        ("list --watch=maybe", "--watch: 'maybe' can't be read. See weir list --help."),
        ("list --limit", "--limit has no value; write --limit=VALUE. See weir list --help."),
        ("list -p", "-p has no value; write -p VALUE. See weir list --help."),
        (
            "report usage --since --by user",
            "--since has no value; write --since=VALUE. See weir report usage --help.",
        ),
        ("maintenance add", "--from is missing. See weir maintenance add --help."),
        ("describe", "NAME is missing. See weir describe --help."),
        ("describe a b", "Unknown argument 'b'. See weir describe --help."),
        ("scenario schema x", "KIND: 'x' is unknown; write scenario or policy."),
        ("submit --pods 4 -- a", "Unknown option: --pods. Did you mean --workers? See weir submit --help."),
        ("submit --nodes=4 -- a", "Unknown option: --nodes. Did you mean --workers? See weir submit --help."),
        (
            "sweep --replicas 4 -- a",
            "Unknown option: --replicas. Did you mean --workers? See weir sweep --help.",
        ),
        (
            "schedule add --time 1h -- a",
            "Unknown option: --time. Did you mean --max-runtime? See weir schedule add --help.",
        ),
        ("list --account a", "Unknown option: --account. Did you mean --project? See weir list --help."),
        ("list --failed", "Unknown option: --failed. Did you mean --status? See weir list --help."),
        ("nodes --account a", "Unknown option: --account. See weir nodes --help."),
        ("notify test", "ID is missing. See weir notify test --help."),
        ("top --bogus", "Unknown option: --bogus. See weir top --help."),
    ],
)
def test_a_wrong_word_is_named_with_a_right_one(
    words: str, answer: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"weir: {answer}\n"
    assert fake.asked == []


@pytest.mark.parametrize("written", ["75", "+75", "-3", "high", "1.5", "1e9", "0x10"])
def test_a_priority_is_a_number_or_passed_on_as_a_name(written: str, fake: Fake) -> None:
    fake.on("POST", "/workloads/a/priority", row("a"))
    main(["priority", "a", written])
    bodies = [each.body for each in fake.asked if each.body]
    assert bodies == [{"priority": int(written) if written.lstrip("+-").isdecimal() else written}]


def test_the_largest_limit_is_taken(fake: Fake) -> None:
    fake.on("GET", "/workloads", page(row("a")))
    assert main(["list", "--limit", "1000000"]) == 0
