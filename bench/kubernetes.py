"""Weir against a real API server: 500 nodes of 8 devices that only pretend, and everything else as it is.

    python -m bench.kubernetes [--nodes 500] [--case bare stock-made made stock-jobs jobs gang reclaim reason]
        [--webhooks] [--output json]

Cases, with the goals of the design in brackets:

    bare        a client that only binds pods that are there: what the API server takes
    stock-made  kube-scheduler, started when as many one-device pods wait as there are devices
    made        Weir, started so (nine tenths of the bare client's bindings per second)
    stock-jobs  kube-scheduler while as many Jobs are created: from the first object to the last pod running
    jobs        Weir while they are
    gang        a Job of 512 pods that start together
    reclaim     half of all devices, borrowed by single-device Jobs, for a gang of whole nodes
    reason      why a gang of ten whole nodes can't run on the full cluster, from its creation (1 s)

Weir is installed as in production, with its account's rights and limits; its webhooks are called with
--webhooks. It runs as this interpreter has it, and says itself which engine that is. Its manifests are
applied and its sources compiled to bytecode before a case begins, as on every node that has its image.

Rates are bindings, from the first to the last. Everything runs on this one machine, the API server too;
who used how many seconds of its processors in each case, and what was written, is in the JSON.
"""

import argparse
import sys
import time
from collections.abc import Callable

from tools.controlplane.binaries import NoBinaries
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir
from tools.controlplane.work import job, pod

from bench.kube_rig import GANG, GPUS, Measured, Rig, Row, difference
from bench.tables import show
from weir.model.policy import Policy


def bare(rig: Rig) -> Row:
    """Pods bound by a client that knows where."""
    space = rig.cluster.namespace("bare")
    rig.bare.create([pod(space, f"one-{index}", scheduler="nobody") for index in range(rig.gpus)])
    where = [(space, f"one-{index}", rig.names[index // GPUS]) for index in range(rig.gpus)]
    with Measured(rig) as measured:
        rig.bare.bind(where)
        row = measured.until_running(rig.gpus, starts=False)
    _empty(rig, space)
    return row


def stock_made(rig: Rig) -> Row:
    """Pods that wait for kube-scheduler, which is started then."""
    space = rig.cluster.namespace("stock")
    rig.bare.create([pod(space, f"one-{index}", scheduler="default-scheduler") for index in range(rig.gpus)])
    with Measured(rig) as measured, rig.scheduler():
        row = measured.until_running(rig.gpus)
    _empty(rig, space)
    return row


def made(rig: Rig) -> Row:
    """Pods that wait for Weir, which is started then."""
    with rig.teams(made=rig.gpus):
        rig.bare.create([pod("made", f"one-{index}") for index in range(rig.gpus)])
        installed = rig.install()
        with Measured(rig) as measured, rig.weir(installed) as running:
            return measured.until_running(rig.gpus, running)


def stock_jobs(rig: Rig) -> Row:
    """Jobs, all at once, for kube-scheduler."""
    space = rig.cluster.namespace("stock-jobs")
    jobs = [job(space, f"one-{index}", scheduler="default-scheduler") for index in range(rig.gpus)]
    with rig.scheduler():
        time.sleep(3)
        with Measured(rig) as measured:
            rig.bare.create(jobs)
            row = measured.until_running(rig.gpus)
    rig.plane.api.delete(f"/apis/batch/v1/namespaces/{space}/jobs", grace_s=0)
    _empty(rig, space)
    return row


def jobs(rig: Rig) -> Row:
    """Jobs, all at once, for Weir."""
    with rig.teams(jobs=rig.gpus), rig.weir() as weir:
        _settled(rig, weir, "jobs")
        with Measured(rig, weir) as measured:
            rig.bare.create([job("jobs", f"one-{index}") for index in range(rig.gpus)])
            return measured.until_running(rig.gpus)


def gang(rig: Rig) -> Row:
    """Pods that start together, or not at all."""
    pods = min(GANG, rig.gpus)
    with rig.teams(gang=rig.gpus), rig.weir() as weir:
        _settled(rig, weir, "gang")
        with Measured(rig, weir) as measured:
            rig.cluster.api.create(_gang("gang", "all", pods, 1))
            return measured.until_running(pods)


def reclaim(rig: Rig) -> Row:
    """Reclaim for one gang the GPUs that another team borrowed."""
    kept = int(rig.gpus * Policy().reserve_fraction)  # never borrowed
    with rig.teams(owner=rig.gpus // 2, borrower=rig.gpus // 2), rig.weir() as weir:
        with Measured(rig, weir) as filling:
            rig.bare.create([job("borrower", f"one-{index}") for index in range(rig.gpus)])
            filling.until_running(rig.gpus - kept)
        rig.rest()
        nodes = rig.gpus // 2 // GPUS
        with Measured(rig, weir, "team=owner") as measured:
            rig.cluster.api.create(_gang("owner", "all", nodes, GPUS))
            return measured.until_running(nodes)


def reason(rig: Rig) -> Row:
    """Measure the time until a gang that can't run has a reason."""
    with rig.teams(reason=rig.gpus), rig.weir() as weir:
        with Measured(rig, weir) as filling:  # before the first is made: it counts what it sees happen
            rig.bare.create([pod("reason", f"one-{index}") for index in range(rig.gpus)])
            filling.until_running(rig.gpus)
        rig.rest()
        before, pods = rig.spent(weir), min(10, rig.gpus // GPUS)
        began = time.perf_counter()
        rig.cluster.api.create(_gang("reason", "late", pods, GPUS))
        path = "/apis/weir.dev/v1alpha1/namespaces/reason/workloads/job-late"

        def answer() -> object:
            workload = rig.cluster.api.maybe(path) or {}
            why = (workload.get("status") or {}).get("reason") or {}
            return why if why.get("why") not in {None, "gated", "not_ready"} else None

        why = rig.cluster.until(answer, "the reason")
        seconds = time.perf_counter() - began
        spent = difference(rig.spent(weir), before)
        return {"pods": pods, "seconds": round(seconds, 2), "said": why, "cpu_s": spent}


def _gang(space: str, name: str, pods: int, gpus: int) -> dict[str, object]:
    return job(
        space,
        name,
        gpus,
        pods=pods,
        labels={"team": space},
        annotations={"weir.dev/min-pods": str(pods)},
    )


def _settled(rig: Rig, weir: Weir, space: str) -> None:
    """Weir has read everything: a pod it is given runs."""
    rig.cluster.api.create(pod(space, "first"))
    rig.cluster.until(lambda: "first" in rig.cluster.running(space) or weir.check(), "the first pod to run")
    rig.cluster.api.delete(f"/api/v1/namespaces/{space}/pods/first", grace_s=0)
    rig.cluster.until(lambda: not rig.any_pods(), "it to be gone")


def _empty(rig: Rig, space: str) -> None:
    rig.cluster.until(lambda: not rig.any_pods(), "the pods to be gone")
    rig.plane.api.delete(f"/api/v1/namespaces/{space}")


CASES: dict[str, tuple[Callable[[Rig], Row], str]] = {
    "bare": (bare, ""),
    "stock-made": (stock_made, ""),
    "made": (made, "stock-made"),
    "stock-jobs": (stock_jobs, ""),
    "jobs": (jobs, "stock-jobs"),
    "gang": (gang, ""),
    "reclaim": (reclaim, ""),
    "reason": (reason, ""),
}


def measure(plane: ControlPlane, nodes: int, cases: list[str], *, webhooks: bool = False) -> list[Row]:
    """The rows of these cases, measured one after another on one control plane."""
    rows: dict[str, Row] = {}
    plane.grant_all("weir")
    rig = Rig(plane, nodes, webhooks=webhooks)
    for name in cases:
        run, inventory = CASES[name]
        rig.rest()
        rig.engine = ""
        row: Row = {"case": name, "nodes": nodes, **run(rig)}
        if rig.engine:
            row["engine"] = rig.engine
        if name != "bare" and "bare" in rows and "per_second" in row:
            row["of_bare"] = _ratio(row, rows["bare"], "per_second")
        if inventory in rows:
            row["of_stock"] = _ratio(rows[inventory], row, "seconds")
        rows[name] = row
        print(f"  {name}: {row}", file=sys.stderr, flush=True)
    return list(rows.values())


def _ratio(one: Row, other: Row, key: str) -> float:
    above, below = one[key], other[key]
    assert isinstance(above, int | float)
    assert isinstance(below, int | float)
    return round(above / below, 2)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.kubernetes", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--webhooks", action="store_true", help="have the API server call Weir's webhooks")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    try:
        with ControlPlane() as plane:
            rows = measure(plane, args.nodes, args.case, webhooks=args.webhooks)
    except NoBinaries as why:
        print(why, file=sys.stderr)
        return 1
    show(
        "Against a real API server",
        rows,
        args.output,
        hide=("binding_cpu_s", "bound_cpu_s", "cpu_s", "writes", "said"),
        measured=next((str(row["engine"]) for row in rows if "engine" in row), None),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
