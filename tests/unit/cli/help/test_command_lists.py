"""Help of commands that have commands of their own."""

import re

import pytest

from weir.cli.commands import COMMANDS
from weir.cli.main import main

_WITHOUT_WORDS = re.compile(r"^  ([a-z][a-z-]*)$", re.MULTILINE)


@pytest.mark.parametrize("name", [each.name for each in COMMANDS])
def test_each_command_in_a_list_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([name, "--help"])
    listed = capsys.readouterr().out.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert _WITHOUT_WORDS.findall(listed) == []


def test_help_of_up_has_the_options_of_a_machine_before_those_of_a_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["up", "--help"])
    common, _, cluster = capsys.readouterr().out.partition("\nOptions with --on kubernetes:\n")
    assert "\nOptions:\n" in common
    assert "--virtual-gpus" in common
    assert re.findall(r"^  (--\S+?),? ", cluster, re.MULTILINE)[0] == "--context"
    assert "--without-project-exempt" in cluster
    assert "--no-leader-election" in cluster


@pytest.mark.parametrize(
    ("command", "has_indices"),
    [
        *(("submit", True), ("schedule add", True)),
        *(("sweep", False), ("shell", False), ("ssh", False), ("jupyter", False), ("code", False)),
    ],
)
def test_only_commands_that_can_queue_an_array_offer_indices(
    command: str, has_indices: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert "--max-runtime" in text
    assert ("--array" in text) is has_indices


@pytest.mark.parametrize("command", ["stop", "suspend", "resume", "rerun"])
def test_usage_shows_that_options_can_choose_in_place_of_names(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--help"])
    assert capsys.readouterr().out.startswith(f"Usage: weir {command} [OPTIONS] [NAME...]\n")


def test_a_sweep_has_no_option_that_is_always_refused(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sweep", "--help"])
    assert "--no-preemptible" not in capsys.readouterr().out
