"""Headers between a browser and a program: none acts beyond the session."""

import pytest

from weir.dashboard.web_sessions.header_rules import to_browser, to_program

PATH = b"/sessions/notes/"


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        (b"weir_view=a; x=1; weir_session=b; y=2", b"x=1; y=2"),
        (b"Weir_View=a", None),
        (b" weir_view=a;__Host-weir_session=b;z=3", b"z=3"),
        (b"x=weir_view", b"x=weir_view"),
    ],
)
def test_cookies_of_the_pool_stay_behind(sent: bytes, passed: bytes | None) -> None:
    assert dict(to_program([(b"Cookie", sent)])).get(b"Cookie") == passed


def test_hop_by_hop_headers_and_credentials_stay_behind() -> None:
    sent = [
        (name, b"x")
        for name in (b"Connection", b"TE", b"Authorization", b"X-Weir-Proof", b"X-Forwarded-Host")
    ]
    assert to_program([*sent, (b"Accept", b"y")]) == [(b"Accept", b"y")]
    assert to_program([], b"websocket") == [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]


@pytest.mark.parametrize(
    ("answered", "passed"),
    [
        (b"a=1; Path=/; HttpOnly", b"a=1; HttpOnly; Path=/sessions/notes/"),
        (b"a=1; Domain=example.org", b"a=1; Path=/sessions/notes/"),
        (b"a=1; path=/sessions/notes/lab", b"a=1; Path=/sessions/notes/lab"),
        (b"a=1; Path=/sessions/other/", b"a=1; Path=/sessions/notes/"),
        (b"WEIR_session=1", None),
    ],
)
def test_cookies_of_a_program_hold_for_its_path_alone(answered: bytes, passed: bytes | None) -> None:
    assert dict(to_browser([(b"Set-Cookie", answered)], PATH)).get(b"Set-Cookie") == passed


def test_pages_are_framed_by_their_own_origin_alone() -> None:
    found = to_browser(
        [(b"X-Frame-Options", b"ALLOWALL"), (b"Content-Security-Policy", b"default-src x")], PATH
    )
    policies = [value for name, value in found if name == b"Content-Security-Policy"]
    assert policies == [b"default-src x", b"frame-ancestors 'self'"]
    assert (b"X-Frame-Options", b"SAMEORIGIN") in found
