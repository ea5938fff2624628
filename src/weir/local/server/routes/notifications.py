"""Notifications: rules of people and projects, tests, and outcomes of deliveries."""

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response

from weir.api.notifications import (
    DeliveryPage,
    DesktopPage,
    NotificationAsked,
    NotificationMade,
    NotificationPage,
    NotificationTested,
)
from weir.local.server.access.audit_middleware import note
from weir.local.server.http.problem_details import RequestRefused, read_as, read_body
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.routes.common import (
    BODY_REFUSALS,
    After,
    Limit,
    Requester,
    ThePool,
    among,
    json_response,
    position,
    problems,
    takes,
)
from weir.model.notifications import DeliveryState

routes = APIRouter(prefix="/api/v1/notifications", tags=["notifications"], route_class=StrictRoute)
_STATES = ("pending", "delivered", "failed")
_ID_MAX = 1 << 62
States = Annotated[
    str | None, Query(max_length=100, description="States, separated by commas; all by default.")
]


@routes.get("", response_model=NotificationPage, responses=problems())
async def list_notifications(pool: ThePool, person: Requester) -> Response:
    """Return the notifications of the person, and of the projects that they lead."""
    return json_response(pool.on_wall_clock(await pool.notifications.all(person)))


@routes.post(
    "",
    status_code=201,
    response_model=NotificationMade,
    responses=problems(403, 404, *BODY_REFUSALS, 409),
    openapi_extra=takes(NotificationAsked, "Events to send, and the receiver."),
)
async def add_notification(request: Request, pool: ThePool, person: Requester) -> Response:
    """Add a notification. For a webhook, only this answer has the secret that signs its requests."""
    asked = await read_body(request, lambda body: read_as(NotificationAsked, body, "The notification"))
    note(request, channel=asked.channel, project=asked.project, on=list(asked.on))
    made = await pool.notifications.add(asked, person)
    note(request, notification=made.id, target=made.target)
    return json_response(pool.on_wall_clock(made), 201)


@routes.get("/deliveries", response_model=DeliveryPage, responses=problems(422))
async def list_deliveries(
    pool: ThePool, person: Requester, state: States = None, limit: Limit = 100, after: After = None
) -> Response:
    """Return messages with their attempts, newest first: pending, delivered, or failed for good."""
    states = cast("tuple[DeliveryState, ...]", among("state", state, _STATES))
    page = await pool.notifications.deliveries(person, states, position(after), limit)
    return json_response(pool.on_wall_clock(page))


@routes.get("/desktop", response_model=DesktopPage, responses=problems())
async def list_desktop(pool: ThePool, person: Requester) -> Response:
    """Return the messages for the person's desktop. Each is returned again until it is confirmed."""
    return json_response(await pool.notifications.for_desktop(person))


@routes.post("/desktop/{id}/confirm", status_code=204, responses=problems(404, 422))
async def confirm_desktop(id: int, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - the name in the path
    """Confirm a message that the desktop has shown."""
    await pool.notifications.confirm(_notification_id(id), person)
    return Response(status_code=204)


@routes.delete("/{id}", status_code=204, responses=problems(404, 422))
async def delete_notification(id: int, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - the name in the path
    """Delete a notification, with everything that it would still send."""
    await pool.notifications.remove(_notification_id(id), person)
    return Response(status_code=204)


@routes.post("/{id}/test", response_model=NotificationTested, responses=problems(404, 409, 422))
async def test_notification(id: int, pool: ThePool, person: Requester) -> Response:  # noqa: A002 - see above
    """Send a test message now, and return its outcome."""
    return json_response(await pool.notifications.test(_notification_id(id), person))


def _notification_id(id_: int) -> int:
    if not 0 < id_ <= _ID_MAX:
        raise RequestRefused(404, "There is no such notification.")
    return id_
