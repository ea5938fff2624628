"""Settings of the access from other machines: what is refused, and with which sentence."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.oidc.pool import Authority

from weir.cli.server.remote_options import RemoteOptions, remote_access
from weir.local.server.access.account_mode import AccountMode, PoolAccounts
from weir.local.server.access.unix_accounts import UnixAccount, UnixAccounts
from weir.local.server.settings.remote_access import (
    RemoteAccess,
    RemoteAccessRefused,
    default_public_url,
    read_listen,
)

SHARED = PoolAccounts(mode=AccountMode.SHARED_ACCOUNT, oidc=True)


def test_the_libraries_of_the_sign_in_are_installed() -> None:
    """Without them the tests of OpenID Connect aren't collected."""
    assert find_spec("authlib") is not None
    assert find_spec("joserfc") is not None


@pytest.fixture
def options(tmp_path: Path) -> dict[str, object]:
    """Options that belong together."""
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"
    Authority(tmp_path).certify(certificate, key)
    return {
        "listen": "192.0.2.7:8443",
        "tls_certificate": certificate,
        "tls_key": key,
        "oidc_issuer": "https://sso.example.org/realms/lab",
        "oidc_client_id": "weir",
    }


def access(options: Mapping[str, object], **changed: object) -> RemoteAccess:
    given = {name: value for name, value in {**options, **changed}.items() if value is not None}
    found = remote_access(RemoteOptions(**given))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_nothing_is_opened_without_options() -> None:
    assert remote_access(RemoteOptions()) is None


@pytest.mark.parametrize(
    "left_out", ["listen", "tls_certificate", "tls_key", "oidc_issuer", "oidc_client_id"]
)
def test_each_part_is_needed(options: dict[str, object], left_out: str) -> None:
    with pytest.raises(
        ValueError, match=f"both TLS and OpenID Connect: add --{left_out.replace('_', '-')} [A-Z:]+$"
    ):
        access(options, **{left_out: None})


def test_an_option_alone_names_all_that_is_missing() -> None:
    with pytest.raises(ValueError, match=r"add --listen ADDRESS:PORT, .*--oidc-client-id ID$"):
        remote_access(RemoteOptions(oidc_admin_group="admins"))


def test_the_address_of_people_is_that_of_the_listener_by_default(options: dict[str, object]) -> None:
    assert access(options).listen.public_url == "https://192.0.2.7:8443"
    assert (
        access(options, public_url="https://GPU1.example.org/").listen.public_url
        == "https://gpu1.example.org"
    )
    assert default_public_url("2001:db8::7", 443) == "https://[2001:db8::7]:443"
    assert access(options, listen="192.0.2.7:443").listen.public_url == "https://192.0.2.7"
    assert "0.0.0.0" not in default_public_url("0.0.0.0", 443)


@pytest.mark.parametrize(
    "listen", ["", "host", "host:0", "host:x", ":8443", "a@b:1", "h:1/x", "h:70000", "[::1"]
)
def test_an_address_that_can_not_be_listened_on_is_refused(listen: str) -> None:
    with pytest.raises(ValueError, match="--listen"):
        read_listen(listen)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example.org",
        "https://",
        "https://a/b",
        "https://a?x",
        "https://u@a",
        "a.example.org",
        "https://[",
    ],
)
def test_a_public_url_that_is_no_origin_is_refused(options: dict[str, object], url: str) -> None:
    with pytest.raises(ValueError, match="--public-url"):
        access(options, public_url=url)


@pytest.mark.parametrize("domain", ["Sessions.GPU1.example.org", "*.sessions.gpu1.example.org."])
def test_a_domain_of_sessions_is_written_in_one_way(options: dict[str, object], domain: str) -> None:
    assert access(options, sessions_domain=domain).listen.sessions_domain == "sessions.gpu1.example.org"


@pytest.mark.parametrize(
    "domain", ["", "sessions", "a b.example", "https://s.example", "1.2.3.4", "a..b", "x:1"]
)
def test_what_is_no_domain_of_sessions_is_refused(options: dict[str, object], domain: str) -> None:
    with pytest.raises(ValueError, match="--sessions-domain"):
        access(options, sessions_domain=domain)


@pytest.mark.parametrize("domain", ["example.org", "gpu1.example.org"])
def test_sessions_are_not_beside_the_pool(options: dict[str, object], domain: str) -> None:
    with pytest.raises(ValueError, match="name another domain"):
        access(options, public_url="https://gpu1.example.org:8443", sessions_domain=domain)


def test_a_certificate_has_to_hold_for_sessions(options: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(RemoteAccessRefused, match=r"isn't a certificate for \*\.s\.example\.org"):
        access(options, sessions_domain="s.example.org").check(SHARED)
    certificate, key = options["tls_certificate"], options["tls_key"]
    assert isinstance(certificate, Path)
    assert isinstance(key, Path)
    Authority(tmp_path, ["gpu1.example.org", "*.s.example.org"]).certify(certificate, key)
    access(options, sessions_domain="s.example.org").check(SHARED)


def test_a_personal_pool_is_not_opened(options: dict[str, object]) -> None:
    with pytest.raises(RemoteAccessRefused, match="personal"):
        access(options).check(PoolAccounts())
    access(options).check(SHARED)


def test_unix_accounts_need_an_installed_pool(options: dict[str, object]) -> None:
    found = access(options, oidc_unix_accounts="same-name")
    with pytest.raises(RemoteAccessRefused, match="weir install"):
        found.check(SHARED)
    found.check(PoolAccounts(mode=AccountMode.UNIX_ACCOUNTS, oidc=True))


def test_a_key_that_everyone_can_read_is_refused(options: dict[str, object]) -> None:
    key = options["tls_key"]
    assert isinstance(key, Path)
    key.chmod(0o644)
    with pytest.raises(RemoteAccessRefused, match="chmod 640"):
        access(options).check(SHARED)


@pytest.mark.parametrize("name", ["tls_certificate", "tls_key"])
@pytest.mark.parametrize("content", [None, "", "nothing", "-----BEGIN CERTIFICATE-----\n"])
def test_files_that_are_no_certificate_are_refused(
    options: dict[str, object], name: str, content: str | None
) -> None:
    path = options[name]
    assert isinstance(path, Path)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(RemoteAccessRefused, match=r"--tls-certificate: .*\.$"):
        access(options).check(SHARED)


def test_the_key_of_another_certificate_is_refused(options: dict[str, object], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Authority(other).certify(other / "tls.pem", other / "tls.key")
    with pytest.raises(RemoteAccessRefused, match="key values mismatch"):
        access(options, tls_key=other / "tls.key").check(SHARED)


def test_a_client_secret_is_read_from_a_file_that_others_can_not_read(
    options: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    found = access(options, oidc_client_secret_file=file).oidc
    assert found.client_secret == "s3cret"
    assert found.login_client is None, "`weir login` has no secret"
    assert access(options, oidc_client_secret_file=file, oidc_cli_client_id="cli").oidc.login_client == "cli"
    file.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 640"):
        access(options, oidc_client_secret_file=file)
    file.chmod(0o600)
    file.write_text("two words")
    with pytest.raises(ValueError, match="one secret"):
        access(options, oidc_client_secret_file=file)


async def test_people_of_a_provider_run_no_job_as_a_unix_account(monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.local.server.http.problem_details import RequestRefused

    looked: list[object] = []

    def lookup(which: int | str) -> UnixAccount:
        looked.append(which)
        return UnixAccount("mia", os.getuid() + 1, "/home/mia", frozenset())

    accounts = PoolAccounts(mode=AccountMode.UNIX_ACCOUNTS, unix=UnixAccounts(lookup), oidc=True)
    with pytest.raises(RequestRefused, match="no account on this machine"):
        await accounts.job_account("oidc:mia")
    assert looked == []
