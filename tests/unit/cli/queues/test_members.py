"""`weir project members`: an empty list says what to write."""

import pytest
from tests.unit.client.fake import Fake, page

from weir.cli.main import main

TOKENS = "People of this pool have tokens: `weir token create USER -p vision --role ROLE` makes one."


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (TOKENS, f"vision has no members yet. {TOKENS}\n"),
        (None, "vision has no members yet: `weir project members add vision USER` adds one.\n"),
    ],
)
def test_list_without_members_suggests_a_command_that_the_pool_takes(
    note: str | None, said: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects/vision/members", {**page(), "note": note})
    assert main(["project", "members", "vision"]) == 0
    assert capsys.readouterr().err == said
