"""The routes of the aggregated API by themselves, behind a front proxy of the test."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from multidict import CIMultiDict
from tools.controlplane.certificates import Authority

from weir.api.answers import NodeRow, PodRow, PoolStatus, QueueRow, WhyAnswer
from weir.api.decision import DecisionAnswer
from weir.api.workload_list import ActivityRow, IdleRulesRow
from weir.control.activity import ActivityReading
from weir.kubernetes.admission.certificates import first
from weir.kubernetes.admission.http_runner import HEADERS_MAX, header_limit
from weir.kubernetes.admission.webhook_server import tls_context
from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiUnreachable
from weir.kubernetes.api.objects import Namespace
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.history.stored_answers import StoredAnswers
from weir.kubernetes.query import routes as module
from weir.kubernetes.query.aggregation.access_review import AccessReviewer
from weir.kubernetes.query.aggregation.discovery import ROOT
from weir.kubernetes.query.aggregation.front_proxy import FrontProxy, read_rules
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.cluster.preview_routes import PreviewRoutes
from weir.kubernetes.query.routes import QueryRoutes
from weir.kubernetes.query.usage.recent_series import RecentSeries
from weir.kubernetes.query.usage.recent_usage import RecentUsage
from weir.kubernetes.query.workloads.event_index import EventIndex
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry
from weir.kubernetes.query.workloads.namespace_ages import NamespaceAges
from weir.kubernetes.query.workloads.rows import EventView
from weir.kubernetes.usage.cluster_use import MeasuredUse
from weir.model.activity import Activity
from weir.service.quota_preview import PreviewedChange

ANN = {"X-Remote-User": "ann"}


class Rights(ApiClient):
    """An API server that answers reviews of access alone."""

    def __init__(self, allowed: bool | None = True) -> None:
        self.allowed = allowed
        self.asked: list[dict[str, Any]] = []

    async def post(self, path: str, body: Any, of: Any, *, query: Any = None) -> Any:
        self.asked.append(body["spec"])
        await asyncio.sleep(0)
        if self.allowed is None:
            raise ApiUnreachable("away", may_have_happened=False)
        return msgspec.convert({"status": {"allowed": self.allowed}}, of)


class Answers:
    """Answers of a scheduler that has just begun."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun = asyncio.Semaphore(0)  # one for each snapshot
        self.states: dict[str, MeasuredUse] = {}

    def close(self) -> None:
        self.go_on.set()

    def pods(self, workload: WorkloadIndexEntry) -> list[PodRow]:
        return [PodRow(name=f"{workload.name}/p", status="running")]

    def activity(self, workload: WorkloadIndexEntry) -> ActivityRow | None:
        return ActivityRow(state="parked", quiet=[workload.key])

    def idle_rules(self, workload: WorkloadIndexEntry) -> IdleRulesRow:
        return IdleRulesRow(notice_s=300.0, suspend_s=600.0)

    def measured(self) -> Mapping[str, MeasuredUse]:
        return self.states

    async def why(self, workload: WorkloadIndexEntry, *, all_namespaces: bool, wait_s: float) -> WhyAnswer:
        return WhyAnswer(
            name=workload.key,
            status="pending",
            reason=None,
            position=int(all_namespaces),
            waiting=int(wait_s),
        )

    async def decision(self, workload: WorkloadIndexEntry) -> DecisionAnswer:
        raise ZeroDivisionError

    def queues(self) -> Mapping[str, QueueRow]:
        return {}

    async def nodes(self) -> list[NodeRow]:
        return [NodeRow(name="n", devices=[], capacity={}, allocated={})]

    async def status(self) -> PoolStatus:
        raise QueryRefused(503, "Weir is being started.")

    async def preview(self, kind: str, name: str, spec: Mapping[str, Any]) -> PreviewedChange:
        if not spec:
            raise QueryRefused(422, f"{kind} {name} has no quota.")
        return PreviewedChange(
            {"ns/job-a": "Reclaim.", "ns/gone": "Reclaim."}, {"ns/job-b": "Now."}, [f"{spec}"]
        )

    async def snapshot(self) -> str:
        self.begun.release()
        await self.go_on.wait()
        return "nodes: []\n"


@asynccontextmanager
async def served(
    tmp_path: Path,
    api: ApiClient,
    answers: Answers,
    history: StoredAnswers | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve the routes, and yield a client that is the front proxy."""
    theirs, ours = Authority(tmp_path / "front-proxy"), first(["127.0.0.1"], datetime.now(UTC))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(ours.certificate)
    key.write_bytes(ours.key)
    tls = tls_context()
    tls.load_cert_chain(certificate, key)
    tls.load_verify_locations(theirs.certificate)
    tls.verify_mode = ssl.CERT_OPTIONAL
    proxy = FrontProxy(api, tls)
    proxy.rules = read_rules({"requestheader-client-ca-file": theirs.certificate.read_text()})
    workloads = WorkloadIndex()
    for name in ("a", "b", "c"):
        body = {
            "metadata": {"name": f"job-{name}", "namespace": "ns", "uid": name},
            "spec": {"owner": {"name": name}, "maxRuntime": "2h"},
            "status": {"phase": "Pending", "gpus": "1"},
        }
        workloads.deliver([ObjectSet(f"ns/job-{name}", msgspec.convert(body, WorkloadObject))])
    events, ages = EventIndex(workloads, clock=lambda: 1_767_225_600.0), NamespaceAges()
    for name, minute, within in (
        ("before", "00", "again"),
        ("after", "20", "again"),
        ("other", "30", "unseen"),
    ):
        body = {
            "metadata": {"name": name, "namespace": within, "uid": name},
            "regarding": {"kind": "Workload", "namespace": within, "name": "job-a"},
            "reason": "Started",
            "note": name,
            "eventTime": f"2026-01-01T00:{minute}:00.000000Z",
        }
        events.deliver([ObjectSet(f"{within}/{name}", msgspec.convert(body, EventView))])
    for name, at in (("ns", "2025-01-01T00:00:00Z"), ("again", "2026-01-01T00:10:00Z")):
        made = {"metadata": {"name": name, "uid": name, "creationTimestamp": at}}
        ages.see([ObjectSet(name, msgspec.convert(made, Namespace))])
    app = web.Application()
    usage, series, measured = RecentUsage(0.0), RecentSeries(clock()), RecentSeries(clock() - 60)
    series.take(reporting("a", clock() - 1), clock())
    routes = QueryRoutes(
        *(proxy, AccessReviewer(api), workloads, events, usage, series, measured, ages),
        *(answers, history, clock),
    )
    PreviewRoutes(proxy, AccessReviewer(api), workloads, answers).add(app)
    routes.add(app)
    runner = web.AppRunner(app, **header_limit())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    caller = ssl.create_default_context(cadata=ours.bundle.decode())
    pair = theirs.client("front-proxy-client")
    caller.load_cert_chain(pair.certificate, pair.key)
    port = runner.addresses[0][1]
    try:
        connector = aiohttp.TCPConnector(ssl=caller)
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
            yield session
    finally:
        await runner.cleanup()
        await asyncio.sleep(0.1)


def reporting(name: str, at_s: float) -> WorkloadIndexEntry:
    """Return a workload that reports a loss."""
    recent = [{"name": "loss", "points": [[at_s, 0.5]]}]
    body = {
        "metadata": {"name": f"job-{name}", "namespace": "ns", "uid": name},
        "spec": {"owner": {"name": name}},
        "status": {"phase": "Running", "report": {"owner": "", "recent": recent}},
    }
    return WorkloadIndexEntry.of(msgspec.convert(body, WorkloadObject))


async def got(
    session: aiohttp.ClientSession, path: str, headers: Mapping[str, str] = ANN, method: str = "GET"
) -> tuple[int, Any]:
    async with session.request(method, f"{ROOT}/{path}", headers=headers) as answer:
        return answer.status, await answer.json()


async def test_the_past_of_an_earlier_namespace_of_the_name_is_not_shown(tmp_path: Path) -> None:
    async with served(tmp_path, Rights(), Answers()) as session:
        _, page = await got(session, "namespaces/again/events")
        assert [each["sentence"] for each in page["items"]] == ["after"]
        _, page = await got(session, "events")
        assert [each["sentence"] for each in page["items"]] == ["other", "after", "before"]


@pytest.mark.parametrize(("reads_all", "seen"), [(True, ["other"]), (False, []), (None, [])])
async def test_the_past_of_a_namespace_that_isnt_known_is_for_those_who_read_all(
    tmp_path: Path, reads_all: bool | None, seen: list[str]
) -> None:
    async with served(tmp_path, Rights(reads_all), Answers()) as session:
        _, page = await got(session, "namespaces/unseen/events")
        assert [each["sentence"] for each in page["items"]] == seen


async def test_requests_are_answered_or_refused_in_the_words_of_the_api_server(tmp_path: Path) -> None:
    async with served(tmp_path, Rights(), Answers()) as session:
        status, page = await got(session, "workloads?limit=2&q=job")
        assert (status, page["kind"], page["total"], page["next"]) == (200, "WorkloadList", 3, "2")
        assert page["items"][0]["metadata"]["namespace"] == "ns"
        assert page["metadata"] == {"continue": "2"}, "kubectl follows it"
        for words, count in (("type=train,build", 3), ("type=build", 0), ("project=vision,speech", 0)):
            assert (await got(session, f"workloads?{words}"))[1]["total"] == count, words
        for kinds, count in (("started", 3), ("evicted,started", 3), ("evicted", 0)):
            assert (await got(session, f"events?kind={kinds}"))[1]["total"] == count, kinds
        newer = "workloads?status=of-a-newer-version&type=of-a-newer-version"
        assert (await got(session, newer))[1]["items"] == []
        assert {each["activity"]["state"] for each in page["items"]} == {"parked"}
        for name in ("after", "continue"):
            last = (await got(session, f"workloads?limit=2&{name}=2"))[1]
            assert (len(last["items"]), last["next"], last["metadata"]) == (1, None, {}), name
        assert (await got(session, "namespaces/other/workloads"))[1]["items"] == []
        status, detail = await got(session, "namespaces/ns/workloads/a")
        assert (detail["metadata"]["name"], detail["max_runtime_s"]) == ("job-a", 7200.0)
        assert detail["pod_rows"][0]["name"] == "job-a/p"
        assert detail["activity"]["quiet"] == ["ns/job-a"]
        assert detail["idle_rules"]["suspend_s"] == 600.0
        status, report = await got(session, "reports/usage")
        assert status == 200, report
        assert report["note"].startswith("A cluster without a database")
        row = NodeRow(name="n", devices=[], capacity={}, allocated={}).model_dump(mode="json")
        assert (await got(session, "nodes"))[1]["items"] == [{**row, "metadata": {"name": "n"}}]
        refusals = [
            ("nosuch", "GET", 404),
            ("namespaces/ns/workloads/z", "GET", 404),
            ("namespaces/ns/workloads/a/why?wait=x", "GET", 422),
            ("workloads?limit=nan", "GET", 422),
            ("workloads?after=1e300", "GET", 422),
            ("workloads?continue=x", "GET", 422),
            ("namespaces/ns/workloads?fieldSelector=metadata.name%3Djob-a", "GET", 422),
            ("namespaces/ns/workloads?labelSelector=team", "GET", 422),
            ("workloads?watch=true", "GET", 405),
            ("nodes?watch=1", "GET", 405),
            ("reports/usage?by=gpu_model", "GET", 422),
            ("namespaces/ns/workloads/a", "DELETE", 405),
            ("pools/cluster", "GET", 503),
            ("namespaces/ns/workloads/a/decision", "GET", 500),
        ]
        for path, method, code in refusals:
            status, answer = await got(session, path, method=method)
            assert (status, answer["kind"], answer["code"]) == (code, "Status", code), path
            assert answer["message"].endswith("."), path
        for headers in ({}, {"X-Remote-Group": "system:masters"}):
            async with session.get(f"{ROOT}/workloads", headers=headers) as refused:
                assert (refused.status, refused.headers["Connection"]) == (401, "close")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("workloads?projct=vision", "unknown parameter 'projct'; did you mean project?"),
        ("namespaces/ns/workloads?statsu=running", "unknown parameter 'statsu'; did you mean status?"),
        ("namespaces/ns/workloads/a?all=true", "unknown parameter 'all'; the path takes none"),
        ("reports/usage?sinse=1", "unknown parameter 'sinse'; did you mean since?"),
        ("events?x=1", "unknown parameter 'x'; write one of workload, project, kind, limit, after, continue"),
    ],
)
async def test_an_unknown_parameter_is_refused_and_those_of_every_list_are_not(
    tmp_path: Path, path: str, sentence: str
) -> None:
    async with served(tmp_path, Rights(), Answers()) as session:
        status, answer = await got(session, path)
        assert (status, answer["message"]) == (422, sentence)
        of_kubectl = "limit=500&resourceVersion=0&timeout=5s&watch=0&labelSelector=&includeObject=Object"
        status, answer = await got(session, f"{path.partition('?')[0]}?{of_kubectl}")
        assert status == 200, answer


def measured(**states: Activity | None) -> dict[str, MeasuredUse]:
    """Return measured workloads of two namespaces; those of a name with `_` are in the second one."""
    return {
        f"{'others' if '_' in name else 'ns'}/job-{name}": MeasuredUse(
            0.5, 1.0, 0.5, ActivityReading(state), 0
        )
        for name, state in states.items()
    }


async def test_states_of_workloads_are_one_answer_and_are_left_out_if_they_are_known(tmp_path: Path) -> None:
    answers = Answers()
    answers.states = measured(b=Activity.PARKED, a=Activity.PARKED, c=None, _d=Activity.WORKING)
    async with served(tmp_path, Rights(), answers) as session:

        async def states(path: str, known: str = "") -> tuple[Any, str]:
            status, answer = await got(session, f"{path}?fields=activity&known={known}")
            assert (status, answer["kind"], answer["items"]) == (200, "WorkloadList", [])
            return answer["states"], answer["version"]

        everywhere, version = await states("workloads")
        assert everywhere == {"parked": ["ns/job-a", "ns/job-b"], "working": ["others/job-_d"]}
        one, own_version = await states("namespaces/ns/workloads")
        assert one == {"parked": ["ns/job-a", "ns/job-b"]}
        assert (await states("namespaces/nosuch/workloads"))[0] == {}
        assert await states("workloads", version) == (None, version)
        answers.states = measured(a=Activity.PARKED, b=Activity.PARKED, _d=Activity.STARVED)
        changed, after = await states("workloads", version)
        assert changed == {"parked": ["ns/job-a", "ns/job-b"], "starved": ["others/job-_d"]}
        assert after != version
        assert await states("namespaces/ns/workloads", own_version) == (None, own_version)
        answers.states = {}
        assert (await states("workloads", after))[0] == {}


@pytest.mark.parametrize("allowed", [True, False, None])
async def test_other_namespaces_are_part_of_an_answer_only_with_the_right(
    tmp_path: Path, allowed: bool | None
) -> None:
    api = Rights(allowed)
    async with served(tmp_path, api, Answers()) as session:
        for _ in range(2):
            _, answer = await got(
                session, "namespaces/ns/workloads/a/why?wait=99", {**ANN, "X-Remote-Group": "g"}
            )
            assert (answer["position"], answer["waiting"]) == (int(bool(allowed)), 10)
        status = {True: 500, False: 403, None: 503}[allowed]
        assert (await got(session, "namespaces/ns/workloads/a/decision"))[0] == status
    spec = api.asked[0]
    assert (spec["user"], spec["groups"]) == ("ann", ["g"])
    assert spec["resourceAttributes"]["verb"] == "list"
    assert len(api.asked) == (3 if allowed is None else 2), "an answer is remembered, a failure isn't"


async def test_too_many_requests_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUESTS_MAX", 2)
    answers = Answers()
    async with served(tmp_path, Rights(), answers) as session:
        held = [asyncio.create_task(got(session, "pools/cluster/snapshot")) for _ in range(2)]
        while True:
            status, _ = await got(session, "workloads")
            if status == 429:
                break
            await asyncio.sleep(0.01)
        assert (await got(session, ""))[0] == 429
        async with session.get(ROOT, headers=ANN) as discovery:
            assert discovery.status == 200, "else the API server takes the API for unavailable"
        answers.go_on.set()
        assert [status for status, _ in await asyncio.gather(*held)] == [200, 200]
        assert (await got(session, "workloads"))[0] == 200


async def test_large_answers_are_few_at_a_time_and_small_ones_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_MAX", 2)
    answers = Answers()
    async with served(tmp_path, Rights(), answers) as session:
        held = [asyncio.create_task(got(session, "pools/cluster/snapshot")) for _ in range(2)]
        for _ in held:
            await asyncio.wait_for(answers.begun.acquire(), 60)
        assert (await got(session, "pools/cluster/snapshot"))[0] == 429
        assert (await got(session, "namespaces/ns/workloads/a/decision"))[0] == 429
        assert (await got(session, "workloads"))[0] == 200
        answers.go_on.set()
        assert [status for status, _ in await asyncio.gather(*held)] == [200, 200]
        assert (await got(session, "nodes"))[0] == 200


async def test_a_person_in_many_groups_is_answered(tmp_path: Path) -> None:
    """Each group is a header, and aiohttp takes 128 headers by default."""
    groups = [("X-Remote-Group", f"group-{at}") for at in range(HEADERS_MAX - 20)]
    headers = CIMultiDict([*ANN.items(), *groups])
    async with served(tmp_path, Rights(), Answers()) as session:
        assert (await got(session, "workloads", headers))[0] == 200
