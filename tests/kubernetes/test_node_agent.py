"""The agent of a node beside a real kubelet: what it reports is what the kubelet gave, and only it may report."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kubernetes.node_team import Team
from tests.kubernetes.test_real_node import shared
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.queries import wait_for_queries, withdraw
from tools.node.image import IMAGE
from tools.node.node import RealNode
from tools.node.programs import Programs

from weir.kubernetes.install.pods.node_agent import NodeAgents
from weir.kubernetes.node.kubelet_metrics import KubeletMetrics, NoKubeletMetrics, PodLoad

__all__ = ["shared"]  # a fixture
CGROUPS = Path("/sys/fs/cgroup")
NAME, HOME, ACCOUNT = "measured", "weir-system", "weir-node"
NODES = "/apis/query.weir.dev/v1/nodes"
CAP_SYS_ADMIN = 21
STRATEGIC = "application/strategic-merge-patch+json"
FAKE_DRIVER = Path(__file__).parents[1] / "e2e" / "fake_gpus"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def node(shared: Cluster, programs: Programs) -> Iterator[RealNode]:
    with RealNode(shared.plane, programs, name=NAME, gpus=4) as running:
        yield running
        running.check()


@pytest.fixture(scope="module")
def weir(shared: Cluster, node: RealNode) -> Iterator[Installed]:
    agents = NodeAgents("", {"kubernetes.io/hostname": NAME}, limit_memory=True)
    with Installed(shared.plane, name="measured", node=agents) as running:
        running.wait_ready()
        wait_for_queries(shared.api)
        yield running
        withdraw(shared.api)
        assert "forbidden" not in running.log_text().lower()


@pytest.fixture(scope="module")
def pod(shared: Cluster, node: RealNode, weir: Installed) -> Object:
    """The pod of the DaemonSet, which only sleeps: the agent runs beside the node, with the pod's volumes."""
    look = (
        "ls -ln /var/lib/kubelet/pod-resources; id -u; touch /x /var/lib/kubelet/pod-resources/x; "
        "find /sys/fs/cgroup -maxdepth 3 -name kubepods; grep CapEff /proc/self/status; sleep 1000"
    )
    container = {"name": ACCOUNT, "image": IMAGE, "command": ["sh", "-c", look], "args": []}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    shared.api.patch(f"/apis/apps/v1/namespaces/{HOME}/daemonsets/{ACCOUNT}", change, STRATEGIC)

    def running() -> Object | None:
        found = [each for each in shared.pods(HOME) if each["metadata"]["name"].startswith(ACCOUNT)]
        return next((each for each in found if each["status"].get("phase") == "Running"), None)

    found = shared.until(running, node.last_words)
    assert found is not None
    return found


@pytest.fixture
def uses(tmp_path: Path) -> Path:
    """The file with the use of each GPU in percent."""
    file = tmp_path / "uses.json"
    file.write_text("{}")
    return file


@pytest.fixture
def start_agent(shared: Cluster, node: RealNode, weir: Installed, pod: Object, uses: Path) -> Iterator[Start]:
    """Run the command of the DaemonSet, with the files of its pod, the kubelet's socket and a fake driver."""
    daemons = shared.api.get(f"/apis/apps/v1/namespaces/{HOME}/daemonsets/{ACCOUNT}")
    assert (
        daemons["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"]
        == "/var/lib/kubelet/pod-resources"
    )
    changes = {
        "--server": "127.0.0.1",
        "--port": str(weir.port),
        "--server-name": f"weir.{HOME}.svc",
        "--authority": str(volume(node, pod, "secret", "authority") / "ca.crt"),
        "--token": str(volume(node, pod, "projected", "token") / "token"),
        "--pod-resources": str(node.pod_resources),
        "--interval": "1",
        "--kubelet": "127.0.0.1",
        "--kubelet-port": str(node.port),
        "--kubelet-authority": str(volume(node, pod, "projected", "token") / "kubelet-ca.crt"),
        "--kubelet-token": str(volume(node, pod, "projected", "token") / "kubelet-token"),
    }
    words = [word for pair in changes.items() for word in pair]
    words.append("--kubelet-insecure-tls")
    started = []

    def start(*more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "weir", "kube", "node", *words, *more]
        environment = {**os.environ, "PYTHONPATH": str(FAKE_DRIVER), "FAKE_GPUS": str(uses)}
        started.append(subprocess.Popen(command, env=environment))
        return started[-1]

    yield start
    for each in started:
        each.terminate()
        each.wait()


def volume(node: RealNode, pod: Object, kind: str, name: str) -> Path:
    """Return the directory of a volume of a pod, as the kubelet has filled it."""
    return node.root / f"var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~{kind}/{name}"


def shown(cluster: Cluster) -> dict[str, list[float | None]]:
    """Return the use of the GPUs of each workload, as Weir answers."""
    found: dict[str, list[float | None]] = {}
    for each in cluster.api.get(NODES)["items"]:
        for device in each["devices"]:
            for name in device["workloads"]:
                found.setdefault(name, []).append(device["use"])
    return {name: sorted(some, key=str) for name, some in found.items()}


def test_weir_shows_the_use_of_the_gpus_that_the_kubelet_gave(
    shared: Cluster, node: RealNode, weir: Installed, start_agent: Start, uses: Path
) -> None:
    team = Team(shared, weir, "measured", 4)
    try:
        for name, gpus in (("busy", 2), ("quiet", 1), ("odd", 1)):
            team.pod(name, gpus)
        team.until_run({"busy", "quiet", "odd"}, node)
        given = {
            pod: [one.removeprefix("GPU-") for one in some]
            for (_, pod), some in node.devices().items()
            if some
        }

        def let(**percent: int | None) -> None:
            written = {index: percent[pod] for pod, indices in given.items() for index in indices}
            uses.with_suffix(".new").write_text(json.dumps(written))
            uses.with_suffix(".new").rename(uses)

        def until_shown(**wanted: list[float | None]) -> None:
            names = {f"{team.namespace}/pod-{name}": use for name, use in wanted.items()}
            shared.until(lambda: shown(shared) == names, lambda: f"{names}, not {shown(shared)}")

        let(busy=90, quiet=0, odd=None)
        until_shown(busy=[None, None], quiet=[None], odd=[None])
        agent = start_agent()
        until_shown(busy=[0.9, 0.9], quiet=[0.0], odd=[None])
        agent.kill()
        agent.wait()
        node.restart("kubelet")
        let(busy=None, quiet=40, odd=70)
        start_agent()
        until_shown(busy=[None, None], quiet=[0.4], odd=[0.7])
    finally:
        team.remove()


def process_of(uid: str) -> int:
    """Return a process of a pod's container, by its control group."""
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            if f"pod{uid}" in path.read_text() and "sleep" in (path.parent / "cmdline").read_text():
                return int(path.parent.name)
    return 0


def test_a_container_that_uses_more_memory_than_its_share_is_evicted_for_its_neighbour(
    shared: Cluster, node: RealNode, weir: Installed, start_agent: Start, uses: Path
) -> None:
    team, path = Team(shared, weir, "watched", 4), f"/api/v1/nodes/{NAME}"
    config = {"shareMemory": {"onExcess": "evict", "grace": "2s"}}
    settings = {"apiVersion": "weir.dev/v1alpha1", "kind": "SchedulerConfig", "metadata": {"name": "weir"}}
    shared.api.patch(path, {"metadata": {"labels": {"weir.dev/gpu-sharing": "true"}}})
    shared.api.create({**settings, "spec": config})
    try:
        for name in ("greedy", "modest"):
            team.pod(name, 0, annotations={"weir.dev/gpu-fraction": "0.5"})
        team.until_run({"greedy", "modest"}, node)
        placed = team.pods()
        devices = {each["metadata"]["annotations"]["weir.dev/gpus"] for each in placed.values()}
        assert len(devices) == 1, "the shares are on one device"
        uids = {name: each["metadata"]["uid"] for name, each in placed.items()}
        processes = {name: shared.until(lambda uid=uid: process_of(uid)) for name, uid in uids.items()}

        def isolation(name: str) -> Any:
            return team.workload(f"pod-{name}").get("gpuMemoryIsolation")

        def let(**gib: int) -> None:
            memory = {devices.copy().pop(): {str(processes[name]): each << 30 for name, each in gib.items()}}
            uses.with_suffix(".new").write_text(json.dumps({"memory": memory}))
            uses.with_suffix(".new").rename(uses)

        shared.until(lambda: isolation("greedy") == "none", lambda: str(team.workload("pod-greedy")))
        let(greedy=30, modest=39)
        start_agent("--watch-memory")
        both = lambda: (isolation("greedy"), isolation("modest"))  # noqa: E731
        shared.until(lambda: both() == ("cooperative",) * 2, lambda: str(both()))
        assert set(team.run()) == {"greedy", "modest"}
        let(greedy=60, modest=39)
        shared.until(lambda: set(team.run()) == {"modest"}, lambda: str(team.workload("pod-greedy")))
        uses_more, share = "Pod greedy uses 60.0 GiB of GPU", "its share is 39.8 GiB"

        def notes() -> list[str]:
            events = shared.api.items(f"/apis/events.k8s.io/v1/namespaces/{team.namespace}/events")
            return [each["note"] for each in events if each["reason"] == "GPUMemoryExceeded"]

        shared.until(
            lambda: any(uses_more in each and share in each for each in notes()), lambda: f"{notes()}"
        )
        assert "memory_exceeded" in weir.log_text()
    finally:
        team.remove()
        shared.api.delete("/apis/weir.dev/v1alpha1/schedulerconfigs/weir")
        shared.api.patch(path, {"metadata": {"labels": {"weir.dev/gpu-sharing": None}}})


def test_the_driver_limits_the_pods_with_shares_as_they_start(
    shared: Cluster, node: RealNode, weir: Installed, start_agent: Start, uses: Path
) -> None:
    """The driver is a fake that keeps limits for control groups that exist; the groups are the kubelet's."""
    team, path = Team(shared, weir, "limited", 4), f"/api/v1/nodes/{NAME}"
    shared.api.patch(path, {"metadata": {"labels": {"weir.dev/gpu-sharing": "true"}}})
    root = next(each for each in (CGROUPS, CGROUPS / "memory") if (each / "cgroup.procs").exists())
    limits = uses.with_name("limits.json")

    def kept() -> dict[str, int]:
        return json.loads(limits.read_text()) if limits.exists() else {}

    def isolation(name: str) -> Any:
        return team.workload(f"pod-{name}").get("gpuMemoryIsolation")

    def limited_groups(uid: str) -> set[Path]:
        return {Path(each.split()[0]) for each in kept() if uid in each}

    def group_of(uid: str) -> Path:
        (found,) = (each for each in root.rglob(f"pod{uid}") if "kubepods" in each.parts)
        return found

    try:
        team.pod("early", 0, annotations={"weir.dev/gpu-fraction": "0.5"})
        team.until_run({"early"}, node)
        shared.until(lambda: isolation("early") == "none", lambda: str(team.workload("pod-early")))
        start_agent("--limit-memory", "--control-groups", str(root))
        shared.until(lambda: isolation("early") == "enforced", lambda: f"{isolation('early')} {kept()}")
        team.pod("late", 0, annotations={"weir.dev/gpu-fraction": "0.25"})
        team.until_run({"early", "late"}, node)
        shared.until(lambda: isolation("late") == "enforced", lambda: f"{isolation('late')} {kept()}")
        for name, found in team.pods().items():
            annotations, uid = found["metadata"]["annotations"], found["metadata"]["uid"]
            assert limited_groups(uid) == {group_of(uid)}, "its containers inherit it"
            of_pod = {each.split()[1]: bytes_ for each, bytes_ in kept().items() if uid in each}
            limit = int(annotations["weir.dev/gpu-memory-limit"])
            assert of_pod == {annotations["weir.dev/gpus"]: limit - limit % (2 << 20)}, name
        limits.unlink()
        uses.write_text('{"no_limits": true}')
        shared.until(lambda: isolation("early") == "none", lambda: str(team.workload("pod-early")))
    finally:
        team.remove()
        shared.api.patch(path, {"metadata": {"labels": {"weir.dev/gpu-sharing": None}}})


def test_the_kubelet_tells_the_processor_time_and_the_traffic_of_pods(
    shared: Cluster, node: RealNode, weir: Installed, pod: Object
) -> None:
    team = Team(shared, weir, "loaded", 2)
    files = volume(node, pod, "projected", "token")
    authority, token = files / "kubelet-ca.crt", files / "kubelet-token"
    try:
        team.pod("works", 1, "while :; do :; done")
        team.pod("rests", 1)
        team.until_run({"works", "rests"}, node)
        kubelet = KubeletMetrics("127.0.0.1", node.port, authority, token, verify=False)

        def read() -> dict[tuple[str, str], PodLoad]:
            with suppress(NoKubeletMetrics):  # a busy kubelet answers too late
                return kubelet.read()
            return {}

        def loads() -> dict[str, PodLoad]:
            found = {name: load for (space, name), load in read().items() if space == team.namespace}
            known = [each for each in found.values() if None not in (each.cores, each.network)]
            return found if len(known) == 2 and (found["works"].cores or 0) > 0.02 else {}

        found = shared.until(loads, lambda: str(read()))
        assert found["rests"].cores is not None
        assert found["works"].cores is not None
        assert found["rests"].cores < found["works"].cores
        assert found["rests"].network == 0.0
        with pytest.raises(NoKubeletMetrics, match="certificate"):
            KubeletMetrics("127.0.0.1", node.port, authority, token).read()
        with pytest.raises(NoKubeletMetrics, match="can't be read"):
            KubeletMetrics("127.0.0.1", node.port, authority, files / "absent", verify=False).read()
    finally:
        team.remove()


def test_the_agent_sees_its_directory_read_only_and_as_root(
    shared: Cluster, node: RealNode, pod: Object
) -> None:
    name = pod["metadata"]["name"]
    # Lines of both outputs come in any order.
    refused = "Read-only file system"

    def lines_to_the_end() -> list[str]:
        text = node.log(HOME, name, ACCOUNT)
        return text.splitlines() if "CapEff" in text and text.count(refused) == 2 else []

    lines = shared.until(lines_to_the_end, lambda: f"{node.log(HOME, name, ACCOUNT)}\n{node.last_words()}")
    text = "\n".join(lines)
    assert "kubelet.sock" in text
    assert "0" in lines
    assert "/kubepods" in text, "it sees the control groups of all pods"
    assert f"{1 << CAP_SYS_ADMIN:016x}" in text, "it has the capability for the driver, and no other"
    assert (
        shared.api.get(f"/api/v1/namespaces/{HOME}")["metadata"]["labels"][
            "pod-security.kubernetes.io/enforce"
        ]
        == "privileged"
    )


def test_weir_takes_reports_from_agents_alone(
    shared: Cluster, node: RealNode, weir: Installed, pod: Object
) -> None:
    authority = volume(node, pod, "secret", "authority") / "ca.crt"
    url = f"https://127.0.0.1:{weir.port}"

    def ask(token: str, body: Any = b'{"pods": []}', path: str = "/node-report") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = ssl.create_default_context(cafile=str(authority))
        with httpx.Client(verify=context, trust_env=False, timeout=120) as client:
            extensions = {"sni_hostname": f"weir.{HOME}.svc"}
            method = "POST" if path == "/node-report" else "GET"
            answer = client.request(method, url + path, content=body, headers=headers, extensions=extensions)
        return answer.status_code, answer.text

    def token_of(account: str, **spec: Any) -> str:
        path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{account}/token"
        return str(shared.api.post(path, {"spec": spec})["status"]["token"])

    good = (volume(node, pod, "projected", "token") / "token").read_text()
    assert ask(good)[0] == 204
    assert ask(good, path="/node-shares") == (200, '{"shares":[]}')
    for wrong in (
        "",
        "nonsense",
        token_of(ACCOUNT),
        token_of("weir", audiences=["node.weir.dev"]),
        token_of(ACCOUNT, audiences=["node.weir.dev"]),
    ):
        assert ask(wrong, path="/node-shares")[0] == 401
        assert ask(wrong)[0] == 401, "no token, an unknown one, another audience, another account, no pod"
    for body in (
        b"",
        b"[",
        b'{"pods": 1}',
        b'{"pods": [{"namespace": "a", "name": "b", "devices": [{"number": -1, "uuid": ""}]}]}',
    ):
        status, text = ask(good, body)
        assert (status, text.startswith("The report can't be read")) == (400, True), text
    assert ask(good, b" " * (300 << 10))[0] == 413

    def in_parts() -> Iterator[bytes]:
        yield from (b" " * 1024 for _ in range(400))

    assert ask(good, in_parts())[0] in (400, 413)
