"""The whole picture: what the journal kept and what the directories say happened since.

Starts whose supervisors are gone without a word are settled here; those that run are found again.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace

from weir.backends.local.environment import Ports, Seat
from weir.backends.local.home import Ended, Home, Start
from weir.backends.local.journal import Kept
from weir.backends.local.launched import Launched, Run
from weir.backends.local.leftovers import conclude
from weir.backends.local.notes import SAVED, Note, read_notes
from weir.cluster.events import Checkpointed, Place, PodKey, Promised, WorkloadHeld, WorkloadSubmitted
from weir.control.port import Fact, PodExited, PodRuns, StatusFound, Withdrawn
from weir.model.nodes import Node


@dataclass(slots=True)
class Found:
    """What is known of one workload again."""

    launched: Launched
    facts: list[Fact] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    notes: list[tuple[PodKey, Note]] = field(default_factory=list)  # the last of each kind of each pod
    saved_s: float | None = None


def find(kept: Kept, home: Home, node: Node, ports: Ports, known: Collection[str], now_s: float) -> Found:
    """Everything about one workload. Starts in the `known` directories are being watched already."""
    workload, name = kept.workload, kept.workload.name
    found = Found(Launched(workload, kept.launch, kept.promised), saved_s=kept.saved_s)
    last: dict[PodKey, Start] = {}
    highest = 0
    started_s: dict[PodKey, float] = {}
    for start, group, index in home.numbers(kept.launch.uid):
        pod = PodKey(name, group, index)
        found.launched.starts_of[pod] = found.launched.starts_of.get(pod, 0) + 1
        highest = max(highest, start)
        if start <= kept.status.settled:
            continue
        seen = home.start(kept.launch.uid, start, group, index)
        if seen.said is not None:  # otherwise it was never whole, and nothing can have come of it
            last[pod] = seen
            started_s[pod] = seen.said["at_s"]
    facts = found.facts
    facts.append(WorkloadSubmitted(workload, kept.submitted_at_s, kept.status.ran_s))
    if highest or kept.status.starts:
        status = replace(kept.status, starts=max(kept.status.starts, highest))
        facts.append(StatusFound(name, status))
    exits = [_pod(found, pod, seen, home, node, ports, known, now_s) for pod, seen in _by_start(last)]
    if found.saved_s is not None:
        facts.append(Checkpointed(name, found.saved_s))
    found.launched.promised = _still_promised(kept.promised, started_s)
    if found.launched.promised is not None:
        facts.append(found.launched.promised)
    facts += [exit_ for exit_ in exits if exit_ is not None]
    if kept.held is not None:
        facts.append(WorkloadHeld(name, True, kept.held))
    if kept.withdrawn_s is not None:
        facts.append(Withdrawn(name, kept.withdrawn_s))
    return found


def _by_start(last: dict[PodKey, Start]) -> list[tuple[PodKey, Start]]:
    return sorted(last.items(), key=lambda item: item[1].start)


def _pod(
    found: Found,
    pod: PodKey,
    seen: Start,
    home: Home,
    node: Node,
    ports: Ports,
    known: Collection[str],
    now_s: float,
) -> PodExited | None:
    """One pod's last start: that it runs, and if it is over also how it ended."""
    assert seen.said is not None
    watched = home.name_of(seen.directory) in known
    over: Ended | None = seen.ended
    if over is None and not watched:
        with suppress(OSError):  # what is left of it doesn't end, or the disk is full: it holds its room
            over = conclude(seen.directory, seen.said, now_s)
    place = Place(pod, node.name, tuple(at for at in seen.said["devices"] if at < node.gpus))
    found.facts.append(PodRuns(place, seen.start, seen.said["at_s"], seen.stopping))
    notes, noted = read_notes(seen.directory, 0, now_s)
    found.notes += [(pod, note) for note in {note.kind: note for note in notes}.values()]
    for note in notes:
        if note.kind == SAVED:
            found.saved_s = max(note.at_s, found.saved_s or 0.0)
    if over is not None:
        return PodExited(pod, seen.start, over.how, over.at_s, over.sentence)
    seat = Seat(*seen.said["seat"])
    found.launched.sits(pod, seat, ports)
    run = Run(place, seen.uid, seen.start, seen.directory, seen.said["at_s"], seat)
    run.stopping, run.noted = seen.stopping, noted
    found.runs.append(run)
    return None


def _still_promised(promised: Promised | None, started_s: dict[PodKey, float]) -> Promised | None:
    """Room kept, without that of pods that were started since it was promised."""
    if promised is None:
        return None
    rest = tuple(place for place in promised.places if started_s.get(place.pod, -1.0) < promised.at_s)
    return Promised(promised.workload, rest, promised.at_s, promised.freed_by) if rest else None
