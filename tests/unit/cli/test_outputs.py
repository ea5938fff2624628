"""Outputs for programs contain no control codes for a terminal."""

import json

from weir.cli.outputs import as_json


def test_json_has_no_control_character() -> None:
    value = {"command": ["a\x1b[2J", "b\x9b31m\x7f", "c\u00e9"]}
    text = as_json(value)
    assert json.loads(text) == value
    assert not any((each < " " and each != "\n") or "\x7f" <= each <= "\x9f" for each in text)
    assert "\u00e9" in text
