"""Sign-in with OpenID Connect in a browser: to a real provider and back, over HTTPS."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.oidc.pool import LIMIT_S, RemotePool, remote_pool
from tests.oidc.provider import Providers
from tools import web


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemotePool]:
    pytest.importorskip("joserfc")  # test_remote_access.py fails without it
    web.install()  # `make test` has done it
    providers = Providers(tmp_path_factory.mktemp("oidc"))
    try:
        with remote_pool(tmp_path_factory.mktemp("remote"), providers.start()) as pool:
            pool.administer("PUT", "/api/v1/projects/default/members/@oidc:vision", {"role": "member"})
            yield pool
    finally:
        providers.end()


def test_a_person_signs_in_by_the_button_and_out_again(remote: RemotePool, browser: Any) -> None:
    context = browser.new_context(ignore_https_errors=True)
    context.route("https://fonts.googleapis.com/**", lambda route: route.abort())
    context.set_default_timeout(LIMIT_S * 1000)
    page = context.new_page()
    try:
        page.goto(remote.url)
        page.get_by_role("link", name="Sign in with OpenID Connect").click()
        page.get_by_placeholder("Enter any login").fill("mia")
        page.get_by_placeholder("and password").fill("any")
        page.get_by_role("button", name="Sign-in").click()
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("oidc:mia").wait_for()
        page.locator(".state", has_text="live").wait_for()
        cookies = {each["name"]: each for each in context.cookies(remote.url)}
        assert list(cookies) == ["__Host-weir_session"]
        kept = cookies["__Host-weir_session"]
        assert kept["secure"]
        assert kept["httpOnly"]
        assert kept["sameSite"] == "Strict"
        assert page.evaluate("document.cookie") == ""
        page.reload()
        page.get_by_text("oidc:mia").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You are signed out.").wait_for()
        assert context.cookies(remote.url) == []
        page.get_by_role("link", name="sign out there").click()
        page.get_by_role("button", name="Yes, sign me out").click()
        page.get_by_text("Sign-out Success").wait_for()
        page.goto(remote.url)
        page.get_by_role("link", name="Sign in with OpenID Connect").click()
        page.get_by_placeholder("Enter any login").wait_for()  # the provider asks again
    finally:
        context.close()
