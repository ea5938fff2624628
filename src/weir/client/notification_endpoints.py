"""Calls about notifications, of both clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.client.calls import Call, LazyModule, RowPage, endpoint, form, nothing, row_iterator, row_list
from weir.client.path_parts import params, path_part, stated

if TYPE_CHECKING:
    from weir.api import notifications as model
    from weir.client.submissions import Amount
    from weir.model.notifications import Channel, DeliveryState, Topic
else:
    model = LazyModule("weir.api.notifications")

_ROWS_A_PAGE = 100


class NotificationEndpoints:
    """Calls about notifications."""

    @row_list
    def notifications(self) -> Call[RowPage[model.NotificationRow]]:
        """Return the notifications of this person, and of the projects that they lead."""
        return Call("GET", "/notifications", form(model.NotificationPage))

    @endpoint
    def add_notification(
        self,
        channel: Channel,
        target: str = "",
        *,
        on: Sequence[Topic],
        project: str | None = None,
        quiet: str = "",
        digest: Amount | None = None,
    ) -> Call[model.NotificationMade]:
        """Add notifications of topics by mail, webhook or desktop; `project`: of all its workloads.

        `quiet` is a time of the day without messages, such as "22:00-07:00". `digest` collects notifications
        for a duration, such as "1h".
        """
        words = stated(project=project, digest=digest)
        body = {"channel": channel, "target": target, "on": [*on], "quiet": quiet, **words}
        return Call("POST", "/notifications", form(model.NotificationMade), body=body)

    @endpoint
    def delete_notification(self, name: int | str) -> Call[None]:
        """Delete a notification by its number, or by its name on a cluster. Nothing more is sent for it."""
        return Call("DELETE", f"/notifications/{path_part(str(name))}", nothing)

    @endpoint
    def test_notification(self, name: int | str) -> Call[model.NotificationTested]:
        """Send a test message now, and return its outcome. On a cluster a notification has a name."""
        return Call("POST", f"/notifications/{path_part(str(name))}/test", form(model.NotificationTested))

    @row_list
    def desktop_notifications(self) -> Call[RowPage[model.DesktopNotification]]:
        """Return the messages for the desktop of this person that aren't confirmed."""
        return Call("GET", "/notifications/desktop", form(model.DesktopPage))

    @endpoint
    def confirm_notification(self, number: int) -> Call[None]:
        """Confirm a message that the desktop has shown."""
        return Call("POST", f"/notifications/desktop/{number}/confirm", nothing)

    @row_iterator
    def deliveries(self, *, states: Sequence[DeliveryState] = ()) -> Call[RowPage[model.DeliveryRow]]:
        """Iterate over messages with their attempts, newest first."""
        chosen = params(limit=_ROWS_A_PAGE, state=",".join(states))
        return Call("GET", "/notifications/deliveries", form(model.DeliveryPage), chosen)
