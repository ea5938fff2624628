"""Run of situations in random order, with the invariants after each, and a log that explains a failure."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self, TextIO

from tests.kubernetes.week.audit import RACE_S, Audit
from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.invariants import GANG_PART, LEFT_BEHIND, Metrics, Violation, violations
from tests.kubernetes.week.mirror import Mirror
from tests.kubernetes.week.queries import disagreements
from tests.kubernetes.week.replicas import Replicas
from tests.kubernetes.week.scrape import Scrape
from tests.kubernetes.week.situations.quotas import NAMESPACE_GOES, POLICY
from tests.kubernetes.week.snapshot import Snapshot
from tests.kubernetes.week.table import COMMON, MAKE_WORK, SITUATIONS
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster

from weir.kubernetes.state.pods.tracker import EMPTY_S

PATIENCE_S = {GANG_PART: 120.0, LEFT_BEHIND: EMPTY_S + 120.0}
"""Time that a violation may last; the others have `Pace.patience_s`.

A Weir that starts keeps a workload without pods, of whose owner it can't tell, for `EMPTY_S`, and so its project.
"""
LEADS_S = 240.0
NAMESPACE_S = 360.0
"""A Job's controller expects a pod that a leaving namespace refused for five minutes, and ends no Job meanwhile."""
SETTLE_EVERY = 60
COMMON_PART = 0.6
_GONE_WORDS = (
    "not found",
    "already exists",
    "being terminated",
    "forbidden",
    "conflict",
    "the object has been",
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed and patience of a run.

    The API server looks at a namespace again after up to a minute.
    """

    step_s: float = 0.8
    patience_s: float = 30.0
    settle_s: float = 300.0
    max_failures: int = 40


@dataclass(slots=True)
class Report:
    """Actions and findings of a run."""

    seed: int
    steps: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of pods that waited, at each look
    passing: Counter[str] = field(default_factory=Counter)  # looks at which an invariant didn't hold yet
    failures: list[str] = field(default_factory=list)

    @property
    def never(self) -> list[str]:
        """Return the situations that didn't happen."""
        return sorted(set(SITUATIONS) - set(self.done))

    def text(self) -> str:
        """Return a summary."""
        lines = [
            f"seed {self.seed}: {self.steps} steps, {len(self.failures)} failures",
            f"{sum(self.done.values())} situations of {len(self.done)} kinds",
            f"checks: {dict(self.checks)}",
            f"reasons: {dict(self.reasons)}",
            f"not yet true: {dict(self.passing)}",
            f"refused: {dict(self.refused)}",
        ]
        return "\n".join(lines)


class Week:
    """A run on an empty cluster with Weir installed.

    Args:
        cluster: empty.
        replicas: of Weir, of which the first runs.
        seed: decides the order of everything.
        pace: of the run.
        log: takes a line for each step.
    """

    def __init__(
        self,
        cluster: Cluster,
        replicas: Replicas,
        seed: int,
        pace: Pace | None = None,
        log: TextIO = sys.stdout,
    ) -> None:
        self.env = Environment(cluster, replicas, seed)
        self.report = Report(seed)
        self._cluster = cluster
        self._pace = pace or Pace()
        self._log = log
        self._bag: list[str] = []
        self._since: dict[tuple[str, str], float] = {}
        self._told: set[tuple[str, str]] = set()
        self._began_s = time.monotonic()
        self._led_s = time.monotonic()
        self._devices: dict[str, list[tuple[float, int]]] = {}

    def __enter__(self) -> Self:
        api = self._cluster.api
        spec = {"policy": {**POLICY}}
        metadata = {"name": "weir"}
        self.env.set_up()
        api.apply(
            {"apiVersion": "weir.dev/v1alpha1", "kind": "SchedulerConfig", "metadata": metadata, "spec": spec}
        )
        self.audit = Audit(self._most_devices)
        listeners = {"pods": self.audit.take, "resourceclaims": self.audit.take_claim}
        self._mirror = Mirror(self._cluster.plane, listeners, groups=self.env.has_groups)
        self._scrape = Scrape(api, self.env.replicas)
        self.env.snapshot = self._look()
        return self

    def __exit__(self, *_: object) -> None:
        self.env.replicas.stop()
        self._mirror.close()
        self.env.operators.uninstall()

    # Steps

    def go(self, steps: int, until_s: float = float("inf")) -> Report:
        """Do this number of steps, or as many as there is time for, and let everything settle now and then."""
        while self.report.steps < steps and time.monotonic() < until_s and self._may_go_on():
            self.step()
            if self.report.steps % SETTLE_EVERY == 0:
                self.settle()
        self.settle()
        return self.report

    def step(self) -> None:
        """Do what is due, one situation, and perhaps a common one; look at everything."""
        began_s = time.monotonic()
        env = self.env
        self.report.steps += 1
        env.step = self.report.steps
        due = [each for each in env.later if each[0] <= env.step]
        env.later = [each for each in env.later if each[0] > env.step]
        for _, what, act in due:
            self._do(f"later: {what}", act)
        name = self._next()
        if self._do(name, lambda: SITUATIONS[name](env)):
            self.report.done[name] += 1
        if env.chance.random() < COMMON_PART and not env.is_full:
            name = env.chance.choice(COMMON)
            if self._do(name, lambda: SITUATIONS[name](env)):
                self.report.done[name] += 1
        self.look()
        time.sleep(max(0.0, self._pace.step_s * env.chance.uniform(0.5, 1.5) + began_s - time.monotonic()))

    def settle(self) -> None:
        """Do nothing new until all invariants hold.

        What is due later is brought forward, so that no node stays cordoned and no instance away.
        """
        self._note("settle")
        began_s = time.monotonic()
        while self.env.later and time.monotonic() < began_s + self._ends_within_s():
            due, self.env.later = self.env.later, []
            for _, what, act in due:
                self._do(f"later: {what}", act)
            time.sleep(0.3)
            self.look()
        for _, what, _ in self.env.later:
            self._fail(Violation("things end", what, f"{what}: still not possible. {self._leaving()}"))
        if not self.env.replicas.running:
            self.env.replicas.start()
        end_s = time.monotonic() + self._pace.settle_s
        while time.monotonic() < end_s and self._may_go_on():
            if self.look() and not self._since:
                self._note("settled")
                return
            time.sleep(0.5)

    def _ends_within_s(self) -> float:
        """Return how long what is due later may take; longer if only namespaces have yet to go."""
        only_namespaces = all(what.startswith(NAMESPACE_GOES) for _, what, _ in self.env.later)
        return NAMESPACE_S if only_namespaces else self._pace.settle_s / 2

    def _next(self) -> str:
        """Return the next situation of a shuffled bag; one that makes work is put off while much waits."""
        if not self._bag:
            self._bag = sorted(SITUATIONS)
            self.env.chance.shuffle(self._bag)
        for at in range(len(self._bag) - 1, -1, -1):
            if not (self.env.is_full and self._bag[at] in MAKE_WORK):
                return self._bag.pop(at)
        return self._bag.pop()

    def _do(self, name: str, act: Callable[[], Any]) -> bool:
        """Do something; what the API server refuses, because things have moved on, is only noted."""
        try:
            answer = act()
        except ApiError as why:
            self.report.refused[name] += 1
            self._note(f"{name}: refused: {why}")
            if why.code < 500 and "admission webhook" not in str(why):
                return False
            if why.code >= 500:
                self._fail(Violation("no server error", name, str(why)))
            return False
        self._note(f"{name}: {answer}" if answer not in (None, "") else f"{name}: -")
        return answer not in (None, "")

    # Checks

    def look(self) -> bool:
        """Check everything once; return False if none leads, so that nothing can be expected."""
        env = self.env
        env.replicas.check()
        snapshot = env.snapshot = self._look()
        env.operators.work(snapshot.of["pods"])
        for line in env.replicas.complaints():
            self._fail(Violation("log", line[:200], line))
        for sentence in self.audit.wrong:
            self._fail(Violation("every moment", sentence.partition("\n")[0], sentence))
        self.audit.wrong.clear()
        metrics = self._scrape.read()
        now_s = time.monotonic()
        if not metrics:
            self._since.clear()
            if now_s > self._led_s + LEADS_S and env.replicas.running:
                self._fail(Violation("leads", "nobody", f"none leads for {LEADS_S:g} s"))
            return False
        self._led_s = now_s
        self._judge(snapshot, metrics, now_s)
        return True

    def _judge(self, snapshot: Snapshot, metrics: Metrics, now_s: float) -> None:
        there: dict[tuple[str, str], float] = {}
        for each in (*violations(snapshot, metrics), *disagreements(self.env.api, snapshot.workloads)):
            since_s = there[each.key] = self._since.get(each.key, now_s)
            self.report.passing[each.invariant] += 1
            if now_s - since_s > PATIENCE_S.get(each.invariant, self._pace.patience_s):
                self._fail(each)
        self._since = {key: since_s for key, since_s in there.items() if key not in self._told}
        self.report.reasons.update(pod.condition or "none yet" for pod in snapshot.pods if pod.waits)
        self.report.checks["snapshots"] += 1
        self.report.checks["gangs"] += len(snapshot.gangs)
        self.report.checks["waiting pods"] += sum(pod.waits for pod in snapshot.pods)
        self.report.checks["events of pods"] = self.audit.counts["events"]
        self.report.checks["bound by Weir"] = self.audit.counts["bound by Weir"]

    def _look(self) -> Snapshot:
        copy = self._mirror.copy()
        for kind, objects in self.env.operators.objects.items():
            copy[kind] = objects
        snapshot = Snapshot(copy, self._mirror, time.monotonic())
        for name, node in snapshot.nodes.items():
            known = self._devices.setdefault(name, [])
            if not known or known[-1][1] != node.gpus:
                known.append((snapshot.at_s, node.gpus))
        return snapshot

    def _most_devices(self, node: str) -> int | None:
        """Return the devices of a node, or those it had a moment ago if they were more."""
        known = self._devices.get(node)
        if not known:
            return None
        since_s = time.monotonic() - 10 * RACE_S
        recent = [gpus for (_, gpus), (end_s, _) in pairwise(known) if end_s > since_s]
        return max([known[-1][1], *recent])

    # Words

    def _leaving(self) -> str:
        """Return what keeps namespaces that are being deleted."""
        found = []
        for (_, name), each in self.env.snapshot.of["namespaces"].items():
            if each["status"].get("phase") == "Terminating":
                conditions = each["status"].get("conditions") or []
                found += [f"{name}: {one.get('message')}" for one in conditions if one["status"] == "True"]
                found += [
                    str((pod.full_name, pod.node, pod.metadata.get("finalizers")))
                    for pod in self.env.pods()
                    if pod.namespace == name
                ]
        return "; ".join(found)

    def _may_go_on(self) -> bool:
        return len(self.report.failures) < self._pace.max_failures

    def _fail(self, violation: Violation) -> None:
        if violation.key in self._told:
            return
        self._told.add(violation.key)
        words = [word for word in (violation.about, violation.about.rpartition("/")[2]) if word]
        named = [pod.full_name for pod in self.env.snapshot.pods if pod.uid == violation.about]
        its = self.env.snapshot.by_pod.get(violation.about)
        gangs = [
            pod.full_name
            for gang in self.env.snapshot.gangs.values()
            if gang.full_name == violation.about or gang is its
            for pod in gang.pods
        ]
        story = self.audit.story_of(*words, *named, *gangs[:6])
        stated = self._stated(violation.about)
        text = f"step {self.report.steps}: {violation.invariant}: {violation.sentence}\n{story}\n{stated}"
        self.report.failures.append(text)
        self._note(f"FAILURE {text}")

    def _stated(self, about: str) -> str:
        """Return what the Workloads of a pod, a workload or a project say, and the project itself."""
        snapshot, found = self.env.snapshot, []
        if about in snapshot.projects:
            found.append(f"{about} states {json.dumps(snapshot.projects[about])[:2000]}")
        gang = snapshot.by_pod.get(about)
        name = f"{gang.namespace}/{gang.name}" if gang is not None else about.partition(":")[0]
        for key, workload in snapshot.workloads.items():
            if name in ("/".join(key), workload["spec"].get("project")):
                found.append(f"{'/'.join(key)} states {json.dumps(workload.get('status'))[:800]}")
        return "\n".join(found)

    def _note(self, line: str) -> None:
        print(
            f"{time.monotonic() - self._began_s:8.2f} {self.report.steps:5} {line}",
            file=self._log,
            flush=True,
        )
