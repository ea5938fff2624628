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


def test_words_of_the_header_stay_on_one_line_on_a_telephone(
    opened: Callable[..., Any], server: ServingOnPort
) -> None:
    page = opened(width=390)
    page.goto(f"{server.url}/#/now")
    page.get_by_role("button", name="Sign out").wait_for()
    page.evaluate("document.querySelector('header .user').textContent = 'maria.schneider@example.org'")
    lines = """() => [...document.querySelectorAll('header .who a, header .who button')].map(each => {
        const range = document.createRange()
        range.selectNodeContents(each)
        return [each.textContent, new Set([...range.getClientRects()].map(line => line.top)).size]
    })"""
    assert page.evaluate(lines) == [["Notifications", 1], ["Sign out", 1]]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
