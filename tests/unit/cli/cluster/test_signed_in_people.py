"""Sessions of people in a cluster's dashboard: bounded, and over in time."""

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from weir.cli.cluster.dashboard import signed_in_people
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.cluster.dashboard.signed_in_people import SESSION_S, SESSIONS_PER_PERSON_MAX, SignedInPeople
from weir.dashboard.oidc.code_flow import Granted
from weir.dashboard.oidc.id_tokens import OidcIdentity
from weir.dashboard.oidc.settings import OidcSettings
from weir.dashboard.session_table import SignInRefused
from weir.kubernetes.api.errors import ApiUnreachable, refusal

ISSUER = "https://sso.example.org"


class Clock:
    """A clock that tests set."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> SignedInPeople:
    async def reviewed(_api: object) -> str:
        return "oidc:mia"

    monkeypatch.setattr(signed_in_people, "reviewed_user", reviewed)
    address: Any = SimpleNamespace(url="https://127.0.0.1:9", context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    settings = OidcSettings(issuer=ISSUER, client_id="weir", user_claim=None)
    return SignedInPeople(settings, address, "https://weir.example.org", clock=clock, steady=clock)


def granted(clock: Clock, subject: str = "mia", life_s: float = 1e6) -> Granted:
    return Granted(OidcIdentity(subject, subject, expires_s=clock.now_s + life_s), None, "token")


async def test_sessions_of_a_person_are_few_and_the_oldest_end(people: SignedInPeople, clock: Clock) -> None:
    other = await people.begin(granted(clock, "eve"))
    own = [await people.begin(granted(clock)) for _ in range(SESSIONS_PER_PERSON_MAX + 2)]
    for credential in own[:2]:
        with pytest.raises(SignInRefused, match="sign in again"):
            people.view(credential)
    for credential in [other, *own[2:]]:
        assert people.view(credential).name == "weir.example.org"
    await people.close()
    assert people.ended(other)


async def test_all_sessions_together_are_bounded(
    people: SignedInPeople, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_in_people, "SESSIONS_MAX", 3)
    begun = [await people.begin(granted(clock, f"person-{at}")) for at in range(5)]
    assert [people.ended(each) is None for each in begun] == [False, False, True, True, True]
    await people.close()


async def test_sessions_end_after_their_time_and_are_forgotten(people: SignedInPeople, clock: Clock) -> None:
    first = await people.begin(granted(clock))
    clock.now_s += SESSION_S - 1
    second = await people.begin(granted(clock))
    await people.tidy_once()
    assert people.ended(first) is None
    clock.now_s += 1
    with pytest.raises(SignInRefused):
        people.view(first)
    await people.tidy_once()
    assert (first in people._people, second in people._people) == (False, True)
    await people.close()


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (refusal(401, b'{"message": "Unauthorized"}', ""), 403, f"issuer {ISSUER} and the client weir"),
        (ApiUnreachable("POST: no", may_have_happened=False), 503, "doesn't answer now"),
    ],
)
async def test_token_that_the_api_server_does_not_take_begins_no_session(
    people: SignedInPeople,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    text: str,
) -> None:
    async def refused(_api: object) -> str:
        raise error

    monkeypatch.setattr(signed_in_people, "reviewed_user", refused)
    with pytest.raises(RequestProblem, match=text) as problem:
        await people.begin(granted(clock))
    assert problem.value.status == status
    assert not people._people
    await people.close()


def test_only_the_public_host_is_answered(people: SignedInPeople) -> None:
    for host in ("weir.example.org", "WEIR.example.org", "weir.example.org:443"):
        assert people.host_refusal(host) is None
    for host in ("", "127.0.0.1", "weir.example.org.evil", "weir.example.org:8443"):
        assert "https://weir.example.org alone" in (people.host_refusal(host) or "")
