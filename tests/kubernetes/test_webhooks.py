"""The real API server calls the webhooks: objects are changed and refused as they should be, over our own TLS."""

import asyncio
import base64
import gc
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.claim_objects import GPU, claimed, claiming, needs_claims, template
from tests.kubernetes.test_installed import installed
from tools.controlplane.api import ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_webhooks
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import install_kinds
from tools.controlplane.work import job, pod

from weir.kubernetes.admission import certificates
from weir.kubernetes.admission.certificate_rotation import CertificateRotation
from weir.kubernetes.admission.claiming_pods import ClaimedClasses
from weir.kubernetes.admission.job_defaults import POLICY
from weir.kubernetes.admission.reviews import PodRules, QuotaTree
from weir.kubernetes.admission.token_review import TokenReviewer
from weir.kubernetes.admission.webhook_configuration import OWN_PATHS, registrations
from weir.kubernetes.admission.webhook_server import WebhookServices, application, serve, tls_context
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.credentials import Kubeconfig
from weir.kubernetes.crd.queue_tree import QueueObject

DEVICES = ("nvidia.com/gpu",)
SECRET = "weir-webhook"


class Replica:
    """Port of one replica, in a thread of its own."""

    def __init__(self, kubeconfig: Path, known: Callable[[], QuotaTree | None], namespace: str) -> None:
        self._kubeconfig, self._known, self._namespace = kubeconfig, known, namespace
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._down: asyncio.Event | None = None
        self.port = 0
        self.home = namespace
        self.certifying: CertificateRotation
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(120)

    def stop(self) -> None:
        assert self._down is not None
        self._loop.call_soon_threadsafe(self._down.set)
        self._thread.join(120)
        self._loop.close()
        gc.collect()  # a connection that was left open is an error of the test that left it

    def round(self) -> float:
        return asyncio.run_coroutine_threadsafe(self.certifying.round(), self._loop).result(120)

    async def _serve(self) -> None:
        self._down = asyncio.Event()
        async with ApiClient(Kubeconfig(self._kubeconfig)) as api:
            reading = PodRules("weir", DEVICES.__contains__)
            tls = tls_context()
            self.certifying = CertificateRotation(
                api,
                tls,
                namespace=self._namespace,
                secret=SECRET,
                configurations="weir",
                names=["127.0.0.1"],
            )
            served = WebhookServices(
                self._known,
                reading,
                TokenReviewer(api),
                lambda: self.certifying.caller_key,
                metrics=lambda: b"weir_up 1\n",
                claims=ClaimedClasses(api, [GPU].__contains__),
            )
            app = application(served)
            runner = await serve(app, tls, "127.0.0.1", 0)
            self.port = runner.port
            self._up.set()
            await self._down.wait()
            await runner.cleanup()
        for transport in list(self._loop._transports.values()):  # those under TLS would close a moment later
            transport.abort()
        await asyncio.sleep(0.1)


@contextmanager
def replica(kubeconfig: Path, known: Callable[[], QuotaTree | None], namespace: str) -> Iterator[Replica]:
    running = Replica(kubeconfig, known, namespace)
    running.start()
    try:
        yield running
    finally:
        running.stop()


class Queues:
    """State of the webhooks, straight from the server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self) -> QuotaTree:
        found = {
            plural: {
                each["metadata"]["name"]: QueueObject(each["metadata"]["name"], each["spec"], float(at))
                for at, each in enumerate(self._cluster.api.items(f"/apis/weir.dev/v1alpha1/{plural}"))
            }
            for plural in ("departments", "projects", "topologies")
        }
        return QuotaTree(**found)


@pytest.fixture
def hooked(cluster: Cluster, weir_kubeconfig: Path) -> Iterator[tuple[Cluster, Replica]]:
    install_kinds(cluster.api)
    home = cluster.namespace()
    with replica(weir_kubeconfig, Queues(cluster), home) as running:
        client = {"url": f"https://127.0.0.1:{running.port}"}
        cluster.api.apply(
            *registrations(client, scheduler="weir", devices=DEVICES, but_not_in=["kube-system", home])
        )
        assert running.round() > 60
        in_force(cluster)
        yield cluster, running


def in_force(cluster: Cluster) -> None:
    """Wait until the API server knows the configurations, and check that it calls."""
    wait_for_webhooks(cluster.api)
    assert "gone" in refused(cluster, thing("Department", "probe", {"parent": "gone"}))


def thing(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "weir.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def refused(cluster: Cluster, one: Object) -> str:
    """Return the refusal of an object; empty if it is created."""
    try:
        cluster.api.create(one)
    except ApiError as why:
        return why.message.partition("denied the request: ")[2] or why.message
    return ""


def made(cluster: Cluster, one: Object) -> Object:
    return cluster.api.create(one)[0]


def bound(cluster: Cluster, *projects: str) -> str:
    """A namespace of these projects."""
    within = cluster.namespace()
    for name in projects:
        cluster.api.create(thing("Project", name, {"quota": {"gpu": 2}, "namespaces": [within]}))
    return within


def test_pods_that_ask_for_gpus_come_to_weir(hooked: tuple[Cluster, Replica]) -> None:
    cluster, _ = hooked
    within, elsewhere = bound(cluster, "vision"), cluster.namespace()
    plain: dict[str, Any] = {"scheduler": "default-scheduler"}

    ours = made(cluster, pod(within, "a", 1, **plain))
    assert ours["spec"]["schedulerName"] == "weir"
    assert ours["metadata"]["labels"]["weir.dev/project"] == "vision"
    reply = made(cluster, pod(within, "b", 0, annotations={"weir.dev/gpu-fraction": "0.5"}, **plain))
    assert reply["spec"]["schedulerName"] == "weir"

    for name, one in {
        "no-gpus": pod(within, "c", 0, **plain),
        "unbound": pod(elsewhere, "d", 1, **plain),
        "elsewhere": pod(within, "e", 1, scheduler="kai-scheduler"),
    }.items():
        left = made(cluster, one)
        assert left["spec"]["schedulerName"] != "weir", name
        assert "weir.dev/project" not in (left["metadata"].get("labels") or {}), name


@needs_claims
def test_pods_that_claim_gpus_come_to_weir(hooked: tuple[Cluster, Replica]) -> None:
    cluster, _ = hooked
    within = bound(cluster, "claims")
    plain: dict[str, Any] = {"scheduler": "default-scheduler"}
    cluster.api.create(template(within, "one"), template(within, "nic", deviceClassName="nic.example.com"))
    ours = made(cluster, claiming(within, "a", "one", **plain))
    assert ours["spec"]["schedulerName"] == "weir"
    assert ours["metadata"]["labels"]["weir.dev/project"] == "claims"
    whole = claimed(job(within, "b", 0, **plain)["spec"]["template"], resourceClaimTemplateName="one")
    submitted = made(cluster, {**job(within, "b", 0), "spec": {"template": whole}})
    assert submitted["spec"]["podFailurePolicy"] == POLICY
    for name, named in {"c": "nic", "d": "missing"}.items():
        left = made(cluster, claiming(within, name, named, **plain))
        assert left["spec"]["schedulerName"] == "default-scheduler", named


def test_preemption_is_no_failure_of_a_job(hooked: tuple[Cluster, Replica]) -> None:
    cluster, _ = hooked
    within = bound(cluster, "vision")
    ours = made(cluster, job(within, "a", 1))
    assert ours["spec"]["podFailurePolicy"] == POLICY
    assert "backoffLimitPerIndex" not in ours["spec"]
    gang = made(cluster, job(within, "gang", 1, pods=2, retries=3))
    assert (gang["spec"]["backoffLimitPerIndex"], gang["spec"]["maxFailedIndexes"]) == (3, 0)
    stated = job(within, "b", 1)
    own = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
    stated["spec"]["podFailurePolicy"] = {"rules": own}
    stated["spec"]["podReplacementPolicy"] = "Failed"
    assert made(cluster, stated)["spec"]["podFailurePolicy"]["rules"][0]["action"] == "FailJob"
    again = job(within, "c", 1)
    again["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    assert "podFailurePolicy" not in made(cluster, again)["spec"]
    assert "podFailurePolicy" not in made(cluster, job(within, "d", 0, scheduler="default-scheduler"))["spec"]


def test_what_cannot_be_right_is_refused_with_what_to_write(hooked: tuple[Cluster, Replica]) -> None:
    cluster, _ = hooked
    within, both, nowhere = bound(cluster, "vision"), bound(cluster, "a1", "a2"), cluster.namespace()

    def reply(namespace: str, gpus: int = 1, *, on: Callable[..., Object] = pod, **words: str) -> str:
        keys = {f"weir.dev/{word.replace('_', '-')}": value for word, value in words.items()}
        return refused(cluster, on(namespace, "x", gpus, annotations=keys))

    assert "weir.dev/gpu-fracton isn't known: did you mean weir.dev/gpu-fraction?" in reply(
        within, gpu_fracton="1"
    )
    assert "'1.5' is more than one device: write a fraction up to 1" in reply(within, 0, gpu_fraction="1.5")
    assert "there is no project vison; did you mean vision?" in reply(within, project="vison")
    reported = reply(within, project="a1")
    assert (
        f"the namespace {within} may not use the project a1; write weir.dev/project: vision, or have"
        in reported
    )
    assert "may use several projects: write the label weir.dev/project: one of a1, a2" in reply(both)
    assert reply(both, project="a2") == ""
    assert f"the namespace {nowhere} belongs to no project: have it added to spec.namespaces" in reply(
        nowhere
    )
    assert "there is no topology net; none exists" in reply(within, topology="net:required=rack")
    assert "there is no project vison" in reply(within, on=job, project="vison")
    assert "may use several projects" in reply(both, on=job)


def test_queues_go_together(hooked: tuple[Cluster, Replica]) -> None:
    cluster, _ = hooked
    made(cluster, thing("Department", "research", {}))
    made(cluster, thing("Department", "below", {"parent": "research"}))
    made(cluster, thing("Project", "vision", {"department": "below"}))
    reported = refused(cluster, thing("Project", "p", {"department": "reserch"}))
    assert reported == "there is no department reserch; did you mean research?"
    assert "research is the name of a department already" in refused(
        cluster, thing("Project", "research", {})
    )
    path = "/apis/weir.dev/v1alpha1"
    with pytest.raises(ApiError, match="is a circle: leave out the parent of one of them"):
        cluster.api.patch(f"{path}/departments/research", {"spec": {"parent": "below"}})
    with pytest.raises(ApiError, match="the department below isn't empty: move or delete vision first"):
        cluster.api.delete(f"{path}/departments/below")
    cluster.api.patch(f"{path}/projects/vision", {"spec": {"department": None, "priority": 7}})
    cluster.api.delete(f"{path}/departments/below")


def test_a_dead_weir_blocks_no_request(hooked: tuple[Cluster, Replica]) -> None:
    cluster, _ = hooked
    within = bound(cluster, "vision")
    client = {"url": "https://127.0.0.1:1"}
    cluster.api.apply(*registrations(client, scheduler="weir", devices=DEVICES, but_not_in=["kube-system"]))
    wait_for_webhooks(cluster.api)
    assert refused(cluster, thing("Project", "odd", {"department": "gone"})) == ""
    assert made(cluster, pod(within, "a", 1, annotations={"weir.dev/no": "1"}))


def test_two_replicas_share_a_secret_and_renew_it_while_they_serve(
    hooked: tuple[Cluster, Replica], weir_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, one = hooked
    path = f"/api/v1/namespaces/{one.home}/secrets/{SECRET}"
    with replica(weir_kubeconfig, Queues(cluster), one.home) as other:
        other.round()
        assert other.certifying.served == one.certifying.served
        before = cluster.api.get(path)["data"]
        with monkeypatch.context() as due:
            due.setattr(certificates, "_is_due", lambda *_: True)
            other.round()
        after = cluster.api.get(path)["data"]
        both = base64.b64decode(after["ca.crt"])
        assert both.endswith(base64.b64decode(before["ca.crt"]))
        assert both.count(b"BEGIN CERTIFICATE") == 2
        assert other.certifying.served != one.certifying.served
        trusted = cluster.api.get(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/weir"
        )
        bundle = base64.b64decode(trusted["webhooks"][0]["clientConfig"]["caBundle"])
        assert bundle.count(b"BEGIN CERTIFICATE") == 2
        for running in (one, other):  # one still serves what the authority before signed
            assert asked(running, "/healthz", bundle) == (200, "ok\n")
        in_force(cluster)
        one.round()
        assert one.certifying.served == other.certifying.served


def test_a_deleted_secret_comes_back_and_callers_need_its_key(cluster: Cluster, plane: ControlPlane) -> None:
    """With the rights of the manifests alone."""
    home = installed(cluster)
    account = plane.kubeconfig_of(home, "weir")
    at = f"/api/v1/namespaces/{home}/secrets/{SECRET}"
    with replica(account, Queues(cluster), home) as running:
        client = {"url": f"https://127.0.0.1:{running.port}"}
        cluster.api.apply(*registrations(client, scheduler="weir", devices=DEVICES, but_not_in=[home]))
        assert running.round() > 60
        in_force(cluster)
        served = running.certifying.served
        before = cluster.api.get(at)["data"]
        cluster.api.delete(at)
        assert running.round() > 60
        after = cluster.api.get(at)["data"]
        assert running.certifying.served != served
        bundle, former = (base64.b64decode(each["ca.crt"]) for each in (after, before))
        assert bundle.endswith(former)
        assert bundle != former
        assert after["caller.key"] != before["caller.key"]
        key = base64.b64decode(after["caller.key"]).decode()
        for kind, step in (("validating", "validate"), ("mutating", "mutate")):
            path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/weir"
            for hook in cluster.api.get(path)["webhooks"]:
                own = OWN_PATHS.get(hook["name"], step)
                assert hook["clientConfig"]["url"] == f"{client['url']}/{own}/{key}"
        in_force(cluster)


def asked(running: Replica, path: str, authority: bytes, token: str = "") -> tuple[int, str]:
    context = ssl.create_default_context(cadata=authority.decode())
    request = urllib.request.Request(f"https://127.0.0.1:{running.port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_are_for_whom_the_server_vouches_for(
    hooked: tuple[Cluster, Replica], plane: ControlPlane
) -> None:
    cluster, running = hooked
    data = cluster.api.get(f"/api/v1/namespaces/{running.home}/secrets/{SECRET}")["data"]
    bundle = base64.b64decode(data["ca.crt"])
    assert asked(running, "/metrics", bundle)[0] == 401
    assert asked(running, "/metrics", bundle, "nonsense")[0] == 401
    within = cluster.namespace()
    token = "/api/v1/namespaces/{}/serviceaccounts/{}/token"
    without_right = cluster.api.post(token.format(within, "default"), {"spec": {}})["status"]["token"]
    assert asked(running, "/metrics", bundle, without_right)[0] == 403
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "prometheus", "namespace": within},
    }
    rbac = "rbac.authorization.k8s.io"
    may = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "weir-metrics"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    who = {"kind": "ServiceAccount", "name": "prometheus", "namespace": within}
    ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "weir-metrics"}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "prometheus"},
        "roleRef": ref,
        "subjects": [who],
    }
    cluster.api.apply(account, may, binding)
    with_right = cluster.api.post(token.format(within, "prometheus"), {"spec": {}})["status"]["token"]
    cluster.until(lambda: asked(running, "/metrics", bundle, with_right) == (200, "weir_up 1\n"))
