"""Entry into a running pod of one's own, on the machine of the pool."""

from fastapi import APIRouter, Request, Response

from weir.api.pod_entry import EnteredProcess
from weir.local.server.access.audit_middleware import note
from weir.local.server.http.peers import peer_of
from weir.local.server.requests.pod_entry import enter_pod
from weir.local.server.routes.common import ThePool, Who, json_response, problems

routes = APIRouter(prefix="/api/v1/workloads", tags=["workloads"])
_TEXT_MAX = 253


@routes.post("/{name}/entry", response_model=EnteredProcess, responses=problems(403, 404, 409, 422))
async def enter(name: str, request: Request, pool: ThePool, who: Who, pod: str | None = None) -> Response:
    """Put the calling process into the control groups of a running pod of the same user.

    It has the pod's limits and devices from then on, and ends with it. It must be called over a Unix socket.
    """
    note(request, workload=name[:_TEXT_MAX])
    return json_response(await enter_pod(pool, name, pod, who, peer_of(request.scope)))
