"""Compute one digest of every plan of a long replay, to show that a change keeps the engine's decisions.

    python -m bench.plan_digest [--preset throughput fair balanced] [--jobs N] [--expect HEX]

Each preset replays the record of ten clusters as ten tenants whose quotas are equal to their mean demand.
After each preset it prints the digest of all plans so far. The digest covers binds, evictions, nominations,
releases and wake-up times of every cycle, in order. Field names and sentences aren't part of it, so it
survives renames. Rules of evictions count by their position.
"""

import argparse
import hashlib
import struct
import sys
from pathlib import Path
from time import perf_counter

from bench.itp import TRACES, read_jobs
from bench.replays import Said
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import PRESETS, Policy
from weir.model.reasons import EvictionRule
from weir.simulation.replay import jittered, replay
from weir.simulation.traces.tenants import tenants
from weir.state.cluster import Cluster
from weir.state.events import Placement, PodKey

ORDER = ("throughput", "fair", "balanced")
"""New presets go to the end: so digests of those before stay comparable."""
QUOTA_FACTOR = 1.0
"""Quotas as a multiple of each tenant's mean demand: the smaller, the more preemption."""
_RULES = {rule: position for position, rule in enumerate(EvictionRule)}
_NEVER_S = -1.0


class PlanDigest:
    """A `decide` that adds each plan to one digest."""

    def __init__(self) -> None:
        self.decisions = 0
        self.actions = 0
        self._hash = hashlib.sha256()

    def decide(self, cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
        """Decide as the engine does and add the plan to the digest."""
        plan = decide(cluster, policy, now_s, cache)
        self.decisions += 1
        self._add(b"cycle", now_s, _NEVER_S if plan.wake_s is None else plan.wake_s)
        for place in plan.binds:
            self._add_place(b"bind", place)
        for eviction in plan.evictions:
            rule = _RULES[eviction.cause.rule]
            self._add_pod(b"evict", eviction.pod)
            self._add(b"rule", rule, int(eviction.moves), int(eviction.overrides))
        for nominated in plan.nominations:
            self._add(b"nominate", nominated.workload, *nominated.freed_by)
            for place in nominated.places:
                self._add_place(b"place", place)
        for workload in plan.drops:
            self._add(b"release", workload)
        self.actions += len(plan.binds) + len(plan.evictions) + len(plan.nominations) + len(plan.drops)
        return plan

    def hexdigest(self) -> str:
        """Return the digest of all plans so far."""
        return self._hash.hexdigest()

    def _add_place(self, label: bytes, place: Placement) -> None:
        self._add_pod(label, place.pod)
        self._add(b"on", place.node, *place.devices)

    def _add_pod(self, label: bytes, pod: PodKey) -> None:
        self._add(label, pod.workload, pod.group, pod.index)

    def _add(self, label: bytes, *values: str | int | float) -> None:
        parts = [label]
        for value in values:
            if isinstance(value, str):
                parts.append(b"s" + value.encode() + b"\0")
            elif isinstance(value, float):
                parts.append(b"f" + struct.pack("<d", value))
            else:
                parts.append(b"i" + struct.pack("<q", value))
        self._hash.update(b"".join(parts))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="bench.plan_digest", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--preset", nargs="+", default=ORDER, choices=tuple(PRESETS))
    parser.add_argument("--traces", type=Path, default=TRACES, help="directory of the records")
    parser.add_argument("--jobs", type=int, help="replay the first N jobs alone")
    parser.add_argument("--expect", help="exit with status 1 if the digest is another")
    args = parser.parse_args()
    plans = PlanDigest()
    for preset in args.preset:
        started = perf_counter()
        job_traces = [job.job_trace(job.cluster) for job in read_jobs(args.traces)]
        scenario, policy = tenants(job_traces, QUOTA_FACTOR), Policy.model_validate({"preset": preset})
        job_traces = jittered(job_traces[: args.jobs], 0)
        replay(scenario, job_traces, policy, progress=Said(f"plan digest, {preset}"), decide=plans.decide)
        counts = f"{plans.decisions} decisions with {plans.actions} actions"
        took_s = perf_counter() - started
        print(f"{plans.hexdigest()} of {counts}, with {preset} in {took_s:.0f} s", flush=True)
    digest = plans.hexdigest()
    if args.expect is not None and digest != args.expect:
        sys.exit(f"another digest was expected: {args.expect}")


if __name__ == "__main__":
    main()
