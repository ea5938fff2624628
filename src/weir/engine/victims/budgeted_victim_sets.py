"""Sets of victims on one node if disruption budgets don't allow all of them to be stopped at once.

Few victims are enumerated, so that a set is found if one exists. Of many victims, a group that may be stopped
together is chosen first, by tier and price, and the usual search runs in this group.
"""

from collections.abc import Callable, Iterator, Sequence

from weir.engine.victims.victim_sets import (
    MAX_ENUMERATED,
    NodeCapacity,
    Permits,
    Tier,
    Victim,
    minimal_victim_sets,
    set_key,
)
from weir.state.jobs import Job

Allowances = Callable[[Sequence[Victim]], int]
"""Number of disruption allowances that victims use up, as far as an attempt spares them."""


def permitted_victim_sets(
    space_of: Callable[[Sequence[Victim]], NodeCapacity],
    victims: Sequence[Victim],
    permits: Permits,
    allowances: Allowances,
) -> Iterator[tuple[tuple[Tier, Tier, Tier], list[Victim]]]:
    """Yield minimal permitted sets that free the node's capacity for one pod, best first.

    Order and keys are those of `minimal_victim_sets`, after the allowances that a set uses up.
    """
    if len(victims) > MAX_ENUMERATED:
        together = _together(victims, permits, allowances)
        yield from minimal_victim_sets(space_of(together), together)
        return
    space = space_of(victims)
    mates: dict[Job, list[Victim]] = {}
    for victim in victims:
        mates.setdefault(victim.job, []).append(victim)
    found: list[list[Victim]] = []
    _grow(space, sorted(victims, key=lambda victim: victim.tier), mates, permits, 0, [], found)
    keyed = [(allowances(chosen), _key(chosen), at, chosen) for at, chosen in enumerate(found)]
    keyed.sort(key=lambda entry: entry[:3])
    for _, key, _, chosen in keyed:
        yield key, chosen


def _together(victims: Sequence[Victim], permits: Permits, allowances: Allowances) -> list[Victim]:
    """Return the sets that may be evicted together: the cheapest by allowances used and tier."""
    kept: list[Victim] = []
    for victim in sorted(
        victims,
        key=lambda victim: (
            *(victim.whole, allowances([victim])),
            *(victim.tier, victim.price, victim.younger),
        ),
    ):
        mates = (
            []
            if not victim.whole
            else [each for each in victims if each.job is victim.job and not each.whole]
        )
        if all(mate in kept for mate in mates) and permits([*kept, victim]):
            kept.append(victim)
    return kept


def _grow(
    space: NodeCapacity,
    ordered: Sequence[Victim],
    mates: dict[Job, list[Victim]],
    permits: Permits,
    at: int,
    chosen: list[Victim],
    found: list[list[Victim]],
) -> None:
    """Find the permitted sets that free capacity, with the chosen victims and any from `at` on."""
    if chosen and not permits(chosen):
        return
    if space.fits_without(chosen):
        if _is_closed(chosen, mates) and not _has_spare(space, chosen):
            found.append(chosen)
        if _is_closed(chosen, mates):
            return
    if at < len(ordered) and space.fits_without([*chosen, *ordered[at:]]):
        _grow(space, ordered, mates, permits, at + 1, [*chosen, ordered[at]], found)
        _grow(space, ordered, mates, permits, at + 1, chosen, found)


def _is_closed(chosen: Sequence[Victim], mates: dict[Job, list[Victim]]) -> bool:
    """Return True if with a whole workload its elastic pods go, too."""
    return all(mate in chosen for victim in chosen if victim.whole for mate in mates[victim.job])


def _has_spare(space: NodeCapacity, chosen: Sequence[Victim]) -> bool:
    """Return True if one of the victims isn't needed."""
    forced = {victim.job for victim in chosen if victim.whole}
    for victim in chosen:
        if victim.job in forced and not victim.whole:
            continue
        left = [other for other in chosen if other is not victim]
        if space.fits_without(left):
            return True
    return False


def _key(chosen: Sequence[Victim]) -> tuple[Tier, Tier, Tier]:
    """Return the highest tier of the victims, the victims in it, and all victims."""
    highest = max((victim.tier for victim in chosen), default=())
    return highest, set_key([victim for victim in chosen if victim.tier == highest]), set_key(chosen)
