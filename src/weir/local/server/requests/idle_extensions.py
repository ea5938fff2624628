"""Extensions: a person keeps the idle rules away from a workload for a while."""

from weir.api.answers import WorkloadRow
from weir.control.port import IdleExcused
from weir.local.server.access.authorization import Action, Person, require
from weir.local.server.http.problem_details import RequestRefused, field_refusal
from weir.local.server.pool import PoolService
from weir.local.server.state.workload_lookup import live_name, unknown_workload
from weir.model.resources import span


async def extend(pool: PoolService, word: str, duration_s: float, person: Person) -> WorkloadRow:
    """Count no idle time of a workload for this long from now; control stores it before this returns.

    Of an array, the queued indices are extended: those that run or start next.

    Raises:
        RequestRefused: the workload is over, the person may not change it, or the time exceeds the policy.
    """
    name = live_name(pool.view, word)
    spec, array = pool.view.spec_of(name), pool.view.arrays.named(name)
    if spec is None:
        raise unknown_workload(pool.view, word)
    require(person, Action.CONTROL, spec.project, owner=spec.user)
    most_s = pool.policy.life.max_idle_extend
    if duration_s > most_s:
        most = span(most_s)
        text = f"{span(duration_s)} is more than the {most} that the policy allows; write {most} or less"
        raise field_refusal("duration", text)
    names = [name] if array is None else [row.name for row in array.queued]
    if not names:
        raise RequestRefused(409, f"No index of {name} runs, so the idle rules don't act on it.")
    now_s = pool.clock()
    for workload_name in names:
        pool.backend.tell(IdleExcused(workload_name, now_s + duration_s, now_s, by=person.user))
    await pool.query(lambda _: None)  # waits until control has stored it
    row = pool.view.row(name) if array is None else pool.view.with_reason(array.row())
    if row is None:
        raise unknown_workload(pool.view, word)
    return row
