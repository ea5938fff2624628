"""Changes of the quota tree by leads: below their department, within its quota.

A lead divides the quota of a department among its children. Settings with effects beyond the department stay
with administrators: the priority of a queue, the highest priority of its workloads, and its time limits.
"""

from collections.abc import Iterable

from weir.local.server.access.authorization import Action, Person, may, require
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.submissions.admission import DEFAULT_MAX_PRIORITY
from weir.model.queues import Queue
from weir.model.resources import UNLIMITED, written

_NEW = Queue("")


def check_scope(person: Person, parents: Iterable[str | None]) -> None:
    """Check that a person leads the department above a change.

    Raises:
        RequestRefused: the person doesn't; at the top only administrators may change queues.
    """
    for parent in parents:
        require(person, Action.SET_QUOTAS, parent)


def check_within(person: Person, before: Queue | None, after: Queue, queues: Iterable[Queue]) -> None:
    """Check that a lead's change stays within the department's quota and below it.

    Raises:
        RequestRefused: the change exceeds the department's quota or rights.
    """
    if may(person, Action.ADMINISTER):
        return
    _check_protected(before or _NEW, after)
    by_name = {queue.name: queue for queue in queues}
    parent = by_name[after.parent or ""]
    for resource, most in parent.quota.items():
        others = [
            queue for queue in by_name.values() if queue.parent == parent.name and queue.name != after.name
        ]
        already = sum(queue.quota.get(resource, UNLIMITED) for queue in others)
        was_below = before is not None and before.parent == parent.name
        had = already + (before.quota.get(resource, UNLIMITED) if was_below and before is not None else 0)
        gets = already + after.quota.get(resource, UNLIMITED)
        if gets > max(most, had):
            left = written(resource, max(0, most - already))
            message = (
                f"quota.{resource}: {parent.name} has {left} left for {after.name}; write that or less, "
                "or lower the quota of another first"
            )
            field = {"field": f"quota.{resource}", "message": message}
            raise RequestRefused(422, f"The quota: {message}.", [field])


def _check_protected(before: Queue, after: Queue) -> None:
    raised = _highest(after) > _highest(before) or any(
        most > before.max_priority_of.get(user, _highest(before))
        for user, most in after.max_priority_of.items()
    )
    for is_changed, words in (
        (raised, "raise the highest priority of its workloads"),
        (after.priority != before.priority, "change its priority"),
        (after.times != before.times, "change its time limits"),
    ):
        if is_changed:
            raise RequestRefused(403, f"A lead can't {words}: ask an administrator.")


def _highest(queue: Queue) -> int:
    return DEFAULT_MAX_PRIORITY if queue.max_priority is None else queue.max_priority
