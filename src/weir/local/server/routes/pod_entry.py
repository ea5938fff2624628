"""Entry into a running pod of one's own, on the machine of the pool."""

import asyncio
import os
from time import monotonic, sleep

from fastapi import APIRouter, Request, Response

from weir.api.pod_entry import EnteredProcess
from weir.local.pods.running_pods import RunningPod
from weir.local.records import pod_files
from weir.local.records.pod_records import RunningRecord, parse_running
from weir.local.server.access.audit_middleware import note
from weir.local.server.access.authorization import Action, Person
from weir.local.server.http.peers import PeerCredentials, peer_of
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.output.pod_logs import pod_numbers
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import Requester, ThePool, json_response, problems
from weir.local.server.state.workload_lookup import live_name, unknown_workload

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"], route_class=StrictRoute)
_TEXT_MAX = 253
BEGUN_S_MAX, BEGUN_LOOK_S = 5.0, 0.02
"""Time for which the process of a pod that has just begun is awaited, and between two looks."""


@routes.post("/{name}/entry", response_model=EnteredProcess, responses=problems(403, 404, 409, 422))
async def enter(
    name: str, request: Request, pool: ThePool, person: Requester, pod: str | None = None
) -> Response:
    """Put the calling process into the control groups of a running pod of the same user.

    From then on the process has the pod's limits and devices, and ends with the pod. The call must be made
    over a Unix socket.
    """
    note(request, workload=name[:_TEXT_MAX])
    return json_response(await _enter_pod(pool, name, pod, person, peer_of(request.scope)))


async def _enter_pod(
    pool: PoolService, name: str, pod: str | None, person: Person, peer: PeerCredentials | None
) -> EnteredProcess:
    """Put the process at the other end of a Unix socket into a running pod; return the pod's process.

    Raises:
        RequestRefused: the pod isn't the person's own or doesn't run, or no process can enter it.
    """
    live = pool.view.workloads.get(live_name(pool.view, name))
    if live is None:
        raise unknown_workload(pool.view, name[:80])
    workload = live.spec
    pool.require_visible(person, workload.project, workload.submitted_s, Action.VIEW, workload.user)
    if peer is None or person.uid is None or peer.pid <= 0:
        raise RequestRefused(
            403, "Only a process on this machine can enter a pod: run it there, over the pool's socket."
        )
    if person.user != workload.user:
        raise RequestRefused(
            403, f"{workload.name} runs as {workload.user}, and only that user's processes can enter it."
        )
    group, index = pod_numbers(workload, pod)
    run = next(
        (
            run
            for run in pool.backend.pods()
            if (run.place.pod.workload, run.place.pod.group, run.place.pod.index)
            == (workload.name, group, index)
        ),
        None,
    )
    if run is None:
        raise RequestRefused(
            409, f"That pod of {workload.name} doesn't run; `weir describe` shows those that do."
        )
    return await asyncio.to_thread(_enter, pool, run, peer.pid)


def _enter(pool: PoolService, run: RunningPod, pid: int) -> EnteredProcess:
    until_s = monotonic() + BEGUN_S_MAX
    while (text := pod_files.read(run.directory, pod_files.RUNNING)) is None and monotonic() < until_s:
        sleep(BEGUN_LOOK_S)
    record = parse_running(text)
    if not isinstance(record, RunningRecord):
        raise RequestRefused(409, "The pod's process has only just begun: try again.", retry_after_s=1.0)
    try:
        process = os.pidfd_open(pid)
    except OSError:
        raise RequestRefused(409, f"The process {pid} is gone.") from None
    try:
        refused = pool.backend.processes.enter(run.directory, process)
    finally:
        os.close(process)
    if refused:
        raise RequestRefused(409, f"The process {pid} can't enter the pod: {refused}.")
    pool.interactions.note(run.uid, pool.clock())
    return EnteredProcess(leader=record.leader, leader_ticks=record.leader_ticks)
