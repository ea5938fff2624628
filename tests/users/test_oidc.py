"""People of an identity provider in an installed pool: who acts as which account of the machine."""

import json
import os
import pwd
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.oidc.pool import Authority
from tests.oidc.provider import CLIENT, Provider, Providers, client
from tools import web
from tools.controlplane.ports import free_port

from .open_python import open_python
from .shared_pool import ROOT, SharedPool, shared_pool

People = list[pwd.struct_passwd]


class OpenedPool:
    """An installed pool that other machines reach, and its provider."""

    def __init__(self, pool: SharedPool, provider: Provider, url: str, context: ssl.SSLContext) -> None:
        self.pool = pool
        self.provider = provider
        self.url = url
        self._context = context

    def asks(self, name: str, *groups: str) -> httpx.Client:
        """Return the requests of a person with a name and groups at the provider."""
        claims = {"preferred_username": name, "groups": list(groups)}
        self.provider.ask("change", account=f"account of {name}", claims=claims)
        redirect = f"{self.url}/api/v1/dashboard/oidc/callback"
        token = self.provider.tokens(f"account of {name}", redirect=redirect)["id_token"]
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(
            base_url=self.url, verify=self._context, trust_env=False, headers=headers, timeout=120
        )

    def submit(self, person: httpx.Client, name: str, *command: str) -> httpx.Response:
        body: dict[str, Any] = {"project": "default", "name": name, "command": list(command)}
        return person.post("/api/v1/workloads", json={**body, "pods": [{"gpus": 1, "cpu": "100m"}]})


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    pytest.importorskip("joserfc")  # test_remote_access.py fails without it
    web.install()
    found = Providers(tmp_path_factory.mktemp("oidc"))
    yield found
    found.end()


@pytest.fixture(scope="module")
def opened(
    places: Path, gpu_files: list[Path], unix_users: People, providers: Providers
) -> Iterator[OpenedPool]:
    python = open_python(places)
    if python is None:
        pytest.skip("other users can't run this interpreter, or read the packages")
    url = f"https://localhost:{(port := free_port())}"
    provider = providers.start(clients=[client(redirect=f"{url}/api/v1/dashboard/oidc/callback")])
    authority = Authority(places)
    certificate, key = places / "tls.pem", places / "tls.key"
    authority.certify(certificate, key)
    os.chown(key, 0, unix_users[4].pw_gid)
    key.chmod(0o640)
    options = [
        *("--virtual-gpus", "4"),
        *("--listen", f"127.0.0.1:{port}", "--public-url", url, "--oidc-unix-accounts", "same-name"),
        *("--tls-certificate", str(certificate), "--tls-key", str(key)),
        *("--oidc-issuer", provider.issuer, "--oidc-client-id", CLIENT),
    ]
    with shared_pool(places, python, unix_users[4], gpu_files, options=options) as pool:
        pool.add_member(unix_users[0], "default")
        status, answer = pool.ask(
            ROOT, "PUT", "/api/v1/projects/default/members/@oidc:vision", {"role": "member"}
        )
        assert status == 200, answer
        yield OpenedPool(pool, provider, url, ssl.create_default_context(cafile=str(authority.file)))


def test_a_job_of_the_same_name_runs_as_the_account(opened: OpenedPool, unix_users: People) -> None:
    user = unix_users[0]
    with opened.asks(user.pw_name) as person:
        answer = opened.submit(person, "same", "id", "-u")
        assert answer.status_code == 201, answer.text
        assert person.get("/api/v1/whoami").json()["signed_in_by"] == "OpenID Connect"
    opened.pool.wait("same", "succeeded")
    assert opened.pool.log("same").split() == [str(user.pw_uid)]
    status, answer = opened.pool.ask(user, "GET", "/api/v1/workloads/same/logs")
    assert (status, user.pw_name in str(opened.pool.row("same"))) == (200, True)


@pytest.mark.parametrize("which", ["root", "the pool", "none", "a number", "another case"])
def test_no_job_runs_for_a_name_that_is_no_persons_account(
    opened: OpenedPool, unix_users: People, which: str
) -> None:
    name = {
        "root": "root",
        "the pool": unix_users[4].pw_name,
        "none": "no-such-account",
        "a number": str(unix_users[0].pw_uid),
        "another case": unix_users[0].pw_name.upper(),
    }[which]
    with opened.asks(name, "vision") as person:
        assert person.get("/api/v1/whoami").json()["user"] == f"oidc:{name}"
        answer = opened.submit(person, "never", "id")
        assert answer.status_code == 403, answer.text
        assert "no account on this machine" in answer.json()["detail"]
    lines = [json.loads(line) for line in (opened.pool.home / "audit.jsonl").read_text().splitlines()]
    assert [line for line in lines if line["user"] == f"oidc:{name}" and line["outcome"] == "refused"]


def test_unix_groups_give_no_rights_to_people_of_the_provider(opened: OpenedPool, unix_users: People) -> None:
    """Even with the names of the groups of administrators of the machine."""
    with opened.asks(unix_users[1].pw_name, "weir-admin", "root", "sudo") as person:
        assert person.get("/api/v1/tokens").status_code == 403
        told = person.get("/api/v1/whoami").json()
        assert (told["is_admin"], told["roles"]) == (False, {"default": "member"}), (
            "as everyone on the machine"
        )
        assert told["groups"] == ["oidc:root", "oidc:sudo", "oidc:weir-admin"]


def test_what_people_run_through_the_provider_is_their_own(opened: OpenedPool, unix_users: People) -> None:
    """Belong to the account alone: another person of the provider can't stop it."""
    with opened.asks(unix_users[0].pw_name) as person, opened.asks("stranger", "vision") as stranger:
        assert opened.submit(person, "lasting", "sleep", "3600").status_code == 201
        opened.pool.wait("lasting", "running")
        assert stranger.post("/api/v1/workloads/lasting/stop").status_code == 403
        assert stranger.get("/api/v1/workloads/lasting/logs").status_code == 403
    status, _ = opened.pool.ask(unix_users[0], "POST", "/api/v1/workloads/lasting/stop")
    assert status < 300
