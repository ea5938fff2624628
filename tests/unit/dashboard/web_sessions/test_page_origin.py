"""Requests for a session: those of its own pages and a person's own navigation pass, and no others."""

import pytest

from weir.dashboard.web_sessions.own_address import own_address
from weir.dashboard.web_sessions.page_origin import BrowserRequest, page_refusal

HOST = "127.0.0.1:9348"


@pytest.mark.parametrize(
    "request_",
    [
        BrowserRequest("GET", HOST),
        BrowserRequest("POST", HOST, origin=f"http://{HOST}", fetch_site="same-origin"),
        BrowserRequest("GET", HOST, fetch_site="cross-site", fetch_mode="navigate", fetch_dest="document"),
        BrowserRequest("GET", "localhost:1", fetch_site="none"),
    ],
)
def test_own_pages_and_opened_links_pass(request_: BrowserRequest) -> None:
    assert page_refusal(request_, "http") is None


@pytest.mark.parametrize(
    "request_",
    [
        BrowserRequest("POST", HOST, origin=f"https://{HOST}"),
        BrowserRequest("POST", HOST, origin="http://127.0.0.1:1"),
        BrowserRequest("GET", HOST, fetch_site="same-site", fetch_mode="no-cors", fetch_dest="script"),
        BrowserRequest("POST", HOST, fetch_site="cross-site", fetch_mode="navigate", fetch_dest="document"),
        BrowserRequest("GET", HOST, fetch_site="cross-site", fetch_mode="navigate", fetch_dest="iframe"),
    ],
)
def test_other_pages_and_names_are_refused(request_: BrowserRequest) -> None:
    assert page_refusal(request_, "http")


def test_each_person_has_an_address_of_their_own_on_loopback() -> None:
    addresses = {own_address(f"user{at}") for at in range(100)}
    assert len(addresses) == 100
    assert all(each.startswith("127.") and each != "127.0.0.1" for each in addresses)
