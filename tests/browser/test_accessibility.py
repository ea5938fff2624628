"""Every screen by axe-core, in both themes on a narrow screen, and the work of a day by keys alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from .accessibility import all_screens, day_by_keys, violations
from .serving import ServingOnPort


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 320), ("light", 1440)])
def test_screens_are_accessible_and_fit(
    opened: Callable[..., Any], server: ServingOnPort, scheme: str, width: int
) -> None:
    with all_screens(server) as screens:
        wrong = violations(opened(width=width, scheme=scheme), server, screens)
    assert not wrong, json.dumps(wrong, indent=1)


def test_keyboard_alone_submits_reads_why_stops_and_changes_a_quota(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    done = list(day_by_keys(opened(), server))
    assert done == ["submit", "read why", "change a quota", "stop"]
