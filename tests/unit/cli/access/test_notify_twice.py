"""`weir notify add` names an earlier notification that sends the same to the same receiver."""

import pytest
from tests.unit.client.fake import Fake, Said, page

from weir.cli.main import main

MAIL = {
    "id": 2,
    "channel": "mail",
    "target": "mia@lab.example",
    "on": ["end"],
    "user": "mia",
    "created_s": 1.0,
}


@pytest.mark.parametrize(
    ("before", "is_named"),
    [
        ({}, True),
        ({"on": ["start"]}, False),
        ({"target": "leo@lab.example"}, False),
        ({"project": "vision"}, False),
    ],
)
def test_second_notification_of_the_same_is_said(
    before: dict[str, object], is_named: bool, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/notifications", page({**MAIL, "id": 1, **before}))
    fake.on("POST", "/notifications", Said(MAIL, 201))
    assert main(["notify", "add", "mail", "mia@lab.example", "--on", "end"]) == 0
    said = "Notification 1 sends end there too: `weir notify delete 1`.\n"
    assert capsys.readouterr().err == (said if is_named else "")
