"""Kubeconfigs that are read without the official package: as that package reads them, or not at all."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config.kube_config import load_kube_config

from weir.kubernetes.api.credentials import Kubeconfig, NoCredentials
from weir.kubernetes.api.plain_kubeconfig import read_plain

AUTHORITY = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"


def config(user: object = None, cluster: object = None, context: object = None) -> dict[str, Any]:
    """Return a kubeconfig with two contexts, of which `a` is current."""
    inline = base64.b64encode(AUTHORITY.encode()).decode()
    at = {"server": "https://one:6443/", "certificate-authority-data": inline}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {"name": "c", "cluster": at if cluster is None else cluster},
            {"name": "d", "cluster": {"server": "http://two"}},
        ],
        "users": [
            {"name": "u", "user": {"token": "s3cret"} if user is None else user},
            {"name": "v", "user": {"exec": {"command": "/bin/false"}}},
        ],
        "contexts": [
            {"name": "a", "context": {"cluster": "c", "user": "u"} if context is None else context},
            {"name": "b", "context": {"cluster": "d", "user": "u", "namespace": "team"}},
            {"name": "plugin", "context": {"cluster": "c", "user": "v"}},
        ],
        "current-context": "a",
    }


def written(directory: Path, content: object) -> str:
    path = directory / "config"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.mark.parametrize("context", [None, "a", "b"])
def test_plain_files_are_read_as_the_official_package_reads_them(tmp_path: Path, context: str | None) -> None:
    path = written(tmp_path, config())
    plain, official = read_plain(path, context), Configuration()
    load_kube_config(path, context, official, persist_config=False)
    assert plain is not None
    assert plain.server == str(official.host).rstrip("/")
    assert plain.authorization == official.get_api_key_with_prefix("BearerToken", alias="authorization")
    if context == "b":
        assert (plain.authority, plain.namespace) == (None, "team")
    else:
        assert plain.authority == Path(official.ssl_ca_cert).read_text() == AUTHORITY
        assert plain.namespace == "default"
    assert "s3cret" not in repr(plain)


def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    import yaml

    as_json = read_plain(written(tmp_path, config()), None)
    assert as_json is not None
    assert read_plain(written(tmp_path, yaml.safe_dump(config())), None) == as_json


@pytest.mark.parametrize(
    "content",
    [
        config(user={"token": "t", "tokenFile": "/somewhere"}),
        config(user={"token": "t", "as": "another"}),
        config(user={"token": ""}),
        config(user={"token": "t\r\nHost: elsewhere"}) | {"current-context": "none"},
        config(user={"client-certificate-data": "TUE9PQ==", "client-key-data": "TUE9PQ=="}),
        config(user={"exec": {"command": "/bin/false"}}),
        config(cluster={"server": "https://one"}),
        config(cluster={"server": "http://one", "proxy-url": "http://proxy"}),
        config(cluster={"server": "https://one", "insecure-skip-tls-verify": True}),
        config(cluster={"server": "https://one", "certificate-authority-data": "%%%"}),
        config(cluster={"server": "https://one", "certificate-authority": "ca.crt"}),
        config(cluster={"server": "ftp://one"}),
        config(context={"cluster": "c"}),
        config(context={"cluster": "none", "user": "u"}),
        config() | {"current-context": ""},
        config() | {"users": [{"name": "u", "user": {"token": "1"}}, {"name": "u", "user": {"token": "2"}}]},
        config() | {"contexts": None},
        [],
        "",
        "a: [",
        "{" * 100_000,
        "&a [*a]",
    ],
)
def test_anything_else_is_left_to_the_official_package(tmp_path: Path, content: object) -> None:
    assert read_plain(written(tmp_path, content), None) is None


def test_several_files_and_proxies_are_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, config())
    assert read_plain(f"{path}:{path}", None) is None
    assert read_plain(str(tmp_path / "none"), None) is None
    assert read_plain(path, "plugin") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    assert read_plain(path, None) is None


async def test_a_refused_token_is_read_from_the_file_once_more(tmp_path: Path) -> None:
    path = Path(written(tmp_path, config(cluster={"server": "http://one"})))
    access = Kubeconfig(path)
    assert await access.authorization() == "Bearer s3cret"
    written(tmp_path, config(user={"token": "another"}, cluster={"server": "http://one"}))
    assert await access.authorization() == "Bearer s3cret"
    assert await access.authorization(refused=True) == "Bearer another"
    certificate = {"client-certificate-data": "TUE9PQ==", "client-key-data": "TUE9PQ=="}
    written(tmp_path, config(user={**certificate, "token": "third"}, cluster={"server": "http://one"}))
    assert await access.authorization(refused=True) == "Bearer third"
    written(tmp_path, "nothing")
    with pytest.raises(NoCredentials, match="can't be renewed") as why:
        await access.authorization(refused=True)
    assert "third" not in str(why.value)
