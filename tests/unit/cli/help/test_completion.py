"""Completion in a shell: the words that follow a command line."""

import pytest
from tests.unit.client.fake import Fake, page

from weir.cli.help.completion import complete


@pytest.fixture
def pool(fake: Fake) -> Fake:
    names = {
        "/workloads": "train-1",
        "/projects": "vision",
        "/projects/vision/secrets": "KEY",
        "/sweeps": "digits",
        "/schedules": "nightly",
        "/nodes": "box",
        "/maintenance": "fans",
    }
    for path, name in names.items():
        fake.on("GET", path, page({"name": name}))
    for path in ("/tokens", "/notifications"):
        fake.on("GET", path, page({"id": 7, "name": None}))
    fake.on("GET", "/workloads", page({"name": "train-1"}, {"name": "train-1"}))
    return fake


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        ("sweep show ", ["digits"]),
        ("schedule suspend ", ["nightly"]),
        ("secret delete -p vision ", ["KEY"]),
        ("nodes show ", ["box"]),
        ("drain ", ["box"]),
        ("drain box ", []),
        ("maintenance delete ", ["fans"]),
        ("token revoke ", ["7"]),
        ("notify delete ", ["7"]),
        ("project show ", ["vision"]),
        ("project create ", []),
        ("rerun ", ["train-1"]),
        ("scancel t", ["train-1"]),
        ("squeue --sor", ["--sort"]),
        ("submit --after-ok ", ["train-1"]),
        ("submit --node ", ["box"]),
        ("submit -p vision --secret ", ["KEY"]),
        ("list --status p", ["pending"]),
        ("help sub", ["submit"]),
        ("sweep s", ["show", "stop"]),
        ("project members ", ["add", "remove", "vision"]),
        ("project members add ", ["vision"]),
        ("nodes ", ["drain", "undrain", "show"]),
    ],
)
def test_names_and_commands_complete(
    words: str, candidates: list[str], pool: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(words.split(" ")) == 0
    assert capsys.readouterr().out.split() == candidates
