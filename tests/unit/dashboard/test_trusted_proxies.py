"""The address of a browser behind proxies: read from the end of X-Forwarded-For, and from trusted proxies alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dashboard.trusted_proxies import HOPS_MAX, TrustedProxies, read_trusted_proxies

OPTION = "--trusted-proxies"
TRUSTED = read_trusted_proxies(OPTION, ["10.0.0.0/28", "fd00::/64"])
PROXY, BROWSER = "10.0.0.5", "192.0.2.7"


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        (PROXY, [BROWSER], BROWSER),
        (PROXY, [f"198.51.100.1, {BROWSER}"], BROWSER),  # the first was sent by the browser
        (PROXY, ["198.51.100.1", BROWSER], BROWSER),  # two headers are one list
        (PROXY, [f"{BROWSER}, 10.0.0.6"], BROWSER),  # two trusted proxies
        (PROXY, [f"{BROWSER}, 10.0.0.6,fd00::9"], BROWSER),
        (PROXY, ["10.0.0.9"], "10.0.0.9"),  # a proxy asks for itself
        (PROXY, [], PROXY),
        (PROXY, [""], PROXY),
        (PROXY, [f"{BROWSER}, unknown"], PROXY),
        (PROXY, [f"{BROWSER}, 10.0.0.6, <script>"], PROXY),
        (PROXY, [f"{BROWSER}, garbage, 10.0.0.6"], "10.0.0.6"),
        (PROXY, ["1" * 9000], PROXY),
        (PROXY, [f"{BROWSER}:41234"], BROWSER),
        (PROXY, ["2001:db8::7"], "2001:db8::7"),
        (PROXY, ["[2001:db8::7]:41234"], "2001:db8::7"),
        (PROXY, ["[2001:db8::7]"], "2001:db8::7"),
        (PROXY, ["[2001:db8::7"], PROXY),
        (PROXY, ["2001:DB8:0::7"], "2001:db8::7"),
        (PROXY, ["fe80::1%eth0"], "fe80::1"),
        (PROXY, [f"::ffff:{BROWSER}"], BROWSER),
        (f"::ffff:{PROXY}", [BROWSER], BROWSER),  # as a listener on :: sees it
        ("fd00::9", [BROWSER], BROWSER),
        ("10.0.0.16", [BROWSER], "10.0.0.16"),  # just outside of the range
        (BROWSER, ["10.0.0.6"], BROWSER),
        (BROWSER, [f"198.51.100.1, {PROXY}"], BROWSER),
        ("", [BROWSER], ""),
        ("unix", [BROWSER], "unix"),
    ],
)
def test_the_last_address_that_is_no_trusted_proxy_counts(
    peer: str, forwarded: list[str], expected: str
) -> None:
    assert TRUSTED.client_of(peer, forwarded) == expected


def test_a_long_chain_of_trusted_proxies_ends_the_search() -> None:
    forwarded = [", ".join([BROWSER, *["10.0.0.6"] * HOPS_MAX])]
    assert TRUSTED.client_of(PROXY, forwarded) == "10.0.0.6"


def test_without_trusted_proxies_the_header_says_nothing() -> None:
    assert TrustedProxies().client_of(PROXY, [BROWSER]) == PROXY


@given(made_up=st.lists(st.text(max_size=60) | st.ip_addresses().map(str), max_size=8))
def test_a_browser_can_not_choose_the_address_that_it_is_counted_by(made_up: list[str]) -> None:
    chain = [*made_up, f"{BROWSER}, 10.0.0.6"]
    assert TRUSTED.client_of(PROXY, chain) == BROWSER
    assert TRUSTED.client_of(BROWSER, made_up) == BROWSER


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.0.0.0/0", "everyone"),
        ("::/0", "everyone"),
        ("10.0.0.1/8", "no range"),
        ("ingress", "no range"),
        ("", "no range"),
    ],
)
def test_a_range_that_can_not_be_trusted_is_refused_with_its_option(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{OPTION}: .*{why}.*write one such as"):
        read_trusted_proxies(OPTION, [text])


def test_one_address_is_a_range_of_one() -> None:
    assert read_trusted_proxies(OPTION, ["10.0.0.5"]).client_of("10.0.0.5", [BROWSER]) == BROWSER
