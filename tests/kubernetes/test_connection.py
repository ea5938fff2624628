"""The thin client says what happened, in types, and never says its secrets."""

import asyncio
import json
import stat
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import pytest
from msgspec import Struct
from tools.controlplane.cluster import Cluster
from tools.controlplane.plane import ControlPlane
from tools.controlplane.proxy import FaultProxy, Faults
from tools.controlplane.work import pod

from weir.kubernetes.api.client import ApiClient, ClientLimits, Patch
from weir.kubernetes.api.credentials import Kubeconfig, NoCredentials, ServiceAccount
from weir.kubernetes.api.decoding import UndecodedObject
from weir.kubernetes.api.errors import (
    AlreadyExists,
    ApiRefused,
    ApiUnreachable,
    Conflict,
    NotFound,
    ResourceExpired,
    TooManyRequests,
    refusal,
)
from weir.kubernetes.api.objects import ApiObject, ApiStruct, KubeNode, KubePod, Metadata
from weir.kubernetes.api.paths import path_of


class OddSpec(ApiStruct):
    scheduler_name: Literal["weir"]


class OddPod(ApiStruct):
    """Pod as seen by a program that takes all pods for Weir's."""

    metadata: Metadata
    spec: OddSpec


async def test_the_servers_time_is_known(weir_kubeconfig: Path) -> None:
    async with ApiClient(Kubeconfig(weir_kubeconfig)) as api:
        at_s = await api.time_s()
    assert at_s is not None
    assert abs(at_s - time.time()) < 60.0


async def test_refusals_have_types(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    async with ApiClient(Kubeconfig(weir_kubeconfig)) as api:
        with pytest.raises(NotFound, match='pods "a" not found'):
            await api.get(f"{pods}/a", KubePod)
        made = await api.post(pods, pod(within, "a"), KubePod)
        assert made.metadata.uid
        assert made.spec.scheduler_name == "weir"
        with pytest.raises(AlreadyExists):
            await api.post(pods, pod(within, "a"), KubePod)
        with pytest.raises(Conflict) as conflict:
            await api.delete(f"{pods}/a", uid="another")
        assert not isinstance(conflict.value, AlreadyExists)
        with pytest.raises(ApiRefused) as invalid:
            await api.post(pods, pod(within, "B A D"), KubePod)
        assert invalid.value.status == 422
        assert not invalid.value.may_have_happened
        root_ca = f"/api/v1/namespaces/{within}/configmaps/kube-root-ca.crt"
        cluster.until(lambda: cluster.api.maybe(root_ca), "a controller to write the ConfigMap")
        stale = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "resourceVersion": "1"},
        }
        with pytest.raises(Conflict):
            await api.put(path_of("v1", "configmaps", within, "kube-root-ca.crt"), stale, ApiObject)
        await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": "y"}}}, Patch.MERGE, KubePod)
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}}
        for _ in range(2):
            await api.patch(path_of("v1", "configmaps", within, "c"), applied, Patch.APPLY, ApiObject)
        assert (await api.get(f"{pods}/a", KubePod)).metadata.labels["x"] == "y"
        await api.delete(f"{pods}/a", uid=made.metadata.uid)


async def test_a_list_comes_in_pieces_of_one_moment(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    cluster.api.create_many([pod(within, f"p{number:02}") for number in range(25)])
    async with ApiClient(Kubeconfig(weir_kubeconfig), ClientLimits(list_pieces=10)) as api:
        pieces = []
        async for piece in api.pieces(path_of("v1", "pods", within), KubePod):
            pieces.append(piece)
            cluster.api.create(pod(within, f"late{len(pieces)}"))
        assert [len(piece.items) for piece in pieces] == [10, 10, 5]
        assert len({piece.resource_version for piece in pieces}) == 1
        assert len(await api.list_all(path_of("v1", "pods", within), KubePod)) == 28
        assert await api.list_all(path_of("v1", "pods", within), KubePod, label_selector="no=one") == []


async def test_what_cannot_be_read_comes_with_the_rest(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    cluster.api.create(pod(within, "ours"), pod(within, "theirs", scheduler="somebody"))
    async with ApiClient(Kubeconfig(weir_kubeconfig)) as api:
        (piece,) = [piece async for piece in api.pieces(path_of("v1", "pods", within), OddPod)]
    ours, theirs = piece.items
    assert isinstance(ours, OddPod)
    assert isinstance(theirs, UndecodedObject)
    assert theirs.api_object.metadata.name == "theirs"
    assert "somebody" in theirs.sentence


async def test_a_watch_tells_what_changes_and_ends(cluster: Cluster, weir_kubeconfig: Path) -> None:
    within = cluster.namespace()
    async with ApiClient(Kubeconfig(weir_kubeconfig)) as api:
        pods = path_of("v1", "pods", within)
        (empty,) = [piece async for piece in api.pieces(pods, KubePod)]
        cluster.api.create(pod(within, "a"))
        cluster.api.delete(f"{pods}/a", grace_s=0)
        tracked = []
        async with aclosing(api.watch(pods, resource_version=empty.resource_version, for_s=120)) as watched:
            async for events in watched:
                tracked += [event.type for event in events if event.type != "BOOKMARK"]
                if "DELETED" in tracked:
                    break
        assert tracked[0] == "ADDED"
        assert tracked[-1] == "DELETED"
        (later,) = [piece async for piece in api.pieces(pods, KubePod)]
        async for events in api.watch(pods, resource_version=later.resource_version, for_s=1):
            assert events


async def test_a_version_that_is_too_old_is_gone(cluster: Cluster, proxy: FaultProxy) -> None:
    async with ApiClient(Kubeconfig(proxy.kubeconfig)) as api:
        proxy.faults = Faults(gone=1.0)
        with pytest.raises(ResourceExpired):
            async for _ in api.watch("/api/v1/pods", resource_version="1", for_s=5):
                pass
        with pytest.raises(ResourceExpired):
            await api.list_all("/api/v1/pods", KubePod)


async def test_faults_say_whether_a_write_may_have_happened(cluster: Cluster, proxy: FaultProxy) -> None:
    within = cluster.namespace()
    pods = path_of("v1", "pods", within)
    async with ApiClient(Kubeconfig(proxy.kubeconfig)) as api:
        proxy.faults = Faults(throttled=1.0, retry_after_s=7)
        with pytest.raises(TooManyRequests) as throttled:
            await api.post(pods, pod(within, "a"), KubePod)
        assert throttled.value.retry_after_s == 7
        assert not throttled.value.by_budget
        assert not throttled.value.may_have_happened
        proxy.faults = Faults(broken=1.0)
        with pytest.raises(ApiRefused) as broken:
            await api.post(pods, pod(within, "a"), KubePod)
        assert broken.value.status == 500
        assert broken.value.may_have_happened
        proxy.faults = Faults(dropped=1.0)
        with pytest.raises(ApiUnreachable) as dropped:
            await api.post(pods, pod(within, "a"), KubePod)
        assert dropped.value.may_have_happened
        proxy.calm()
        assert (await api.get(f"{pods}/a", KubePod)).metadata.name == "a"
    async with ApiClient(Kubeconfig(proxy.kubeconfig), ClientLimits(write_s=1.0)) as api:
        proxy.faults = Faults(delayed=1.0, delay_s=1000)
        with pytest.raises(ApiUnreachable, match="no answer in time") as late:
            await api.delete(f"{pods}/a")
        assert late.value.may_have_happened


async def test_without_a_server_surely_nothing_is_done(tmp_path: Path) -> None:
    async with ApiClient(Kubeconfig(kubeconfig(tmp_path, "http://127.0.0.1:9", {"token": "s3cret"}))) as api:
        with pytest.raises(ApiUnreachable) as refused:
            await api.post("/api/v1/pods", {}, KubePod)
        assert not refused.value.may_have_happened
        assert "s3cret" not in f"{refused.value!r} {refused.value} {api!r} {api.__dict__} {api._access!r}"


async def test_a_token_that_ran_out_is_read_again(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = plane.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "namespace").write_text("default")
    (tmp_path / "ca.crt").write_text(plane.authority.certificate.read_text())
    (tmp_path / "token").write_text("an old one")
    access = ServiceAccount(tmp_path)
    (tmp_path / "token").write_text(token(plane))
    async with ApiClient(access) as api:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        reported = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, Review)
        assert reported.status["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert "Bearer" not in repr(access)


class Review(Struct):
    status: dict[str, dict[str, object]]


async def test_plugins_are_asked_again(cluster: Cluster, plane: ControlPlane, tmp_path: Path) -> None:
    """Credentials by a plug-in that gives a wrong token first, with an expiry that has passed."""
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"told = pathlib.Path({str(tmp_path / 'reported')!r})\n"
        f"status = dict(token={token(plane)!r} if told.exists() else 'an old one')\n"
        "status['expirationTimestamp'] = '2020-01-01T00:00:00Z'\n"
        "told.touch()\n"
        "print(json.dumps(dict(apiVersion='client.authentication.k8s.io/v1', kind='ExecCredential', status=status)))\n"
    )
    plugin.chmod(stat.S_IRWXU)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    path = kubeconfig(tmp_path, plane.url, {"exec": run}, plane.authority.certificate)
    async with ApiClient(Kubeconfig(path)) as api:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        reported = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, Review)
        assert reported.status["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_a_wrong_kubeconfig_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoCredentials, match="can't be used"):
        Kubeconfig(tmp_path / "none")
    path = kubeconfig(tmp_path, "http://127.0.0.1:9", {})
    with pytest.raises(NoCredentials, match="other"):
        Kubeconfig(path, "other")
    assert Kubeconfig(path).namespace == "team"
    with pytest.raises(NoCredentials, match="kubeconfig"):
        ServiceAccount(tmp_path)


def test_answers_that_are_not_of_an_api_server() -> None:
    error = refusal(502, b"<html>Bad Gateway</html>")
    assert (error.status, error.may_have_happened) == (502, True)
    assert "Bad Gateway" in str(error)
    assert isinstance(refusal(503, b"", "3"), TooManyRequests)


async def test_hundreds_of_requests_go_at_once(cluster: Cluster, weir_kubeconfig: Path) -> None:
    cluster.add_nodes(1)
    async with ApiClient(Kubeconfig(weir_kubeconfig), ClientLimits(connect_s=60)) as api:
        lists = await asyncio.gather(*(api.list_all("/api/v1/nodes", KubeNode) for _ in range(300)))
    assert all(len(nodes) == 1 for nodes in lists)


def token(plane: ControlPlane) -> str:
    written = json.loads(plane.kubeconfig_of("default", "default").read_text())
    return str(written["users"][0]["user"]["token"])


def kubeconfig(directory: Path, url: str, user: dict[str, object], authority: Path | None = None) -> Path:
    cluster: dict[str, object] = {"server": url}
    if authority is not None:
        cluster["certificate-authority"] = str(authority)
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "x",
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(written))
    return path
