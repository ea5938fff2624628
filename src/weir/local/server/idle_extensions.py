"""Extensions: a person keeps the idle rules away from a workload for a while."""

from weir.api.answers import WorkloadRow
from weir.control.port import IdleExcused
from weir.local.server.authorization import Action, Person, require
from weir.local.server.pool import PoolService
from weir.local.server.problem_details import RequestRefused
from weir.local.server.workload_lookup import live_name, unknown_workload
from weir.model.resources import span


async def extend(pool: PoolService, word: str, duration_s: float, person: Person) -> WorkloadRow:
    """Count no idle time of a workload for this long from now; control stores it before this returns.

    Raises:
        RequestRefused: it is over or not theirs to change, or this is longer than the policy allows.
    """
    name = live_name(pool.view, word)
    line = pool.view.workloads.get(name)
    if line is None:
        raise unknown_workload(word)
    require(person, Action.CONTROL, line.spec.project, owner=line.spec.user)
    most_s = pool.policy.life.idle_extend_most
    if duration_s > most_s:
        asked, most = (span(each).replace(" ", "") for each in (duration_s, most_s))
        message = f"duration: {asked} is more than the {most} that the policy allows; write {most} or less"
        raise RequestRefused(422, message, [{"field": "duration", "message": message}])
    now_s = pool.clock()
    pool.backend.tell(IdleExcused(name, now_s + duration_s, now_s, by=person.user))
    await pool.query(lambda _: None)  # control has taken it in and stored it
    row = pool.view.row(name)
    if row is None:
        raise unknown_workload(word)
    return row
