"""Results of a trial in the termination messages of its containers, which may be any text."""

from collections.abc import Iterable, Sequence

from msgspec import field

from weir.kubernetes.api.container_states import ContainerRun, ContainerStep
from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.crd.sweep_objects import ReachedRung
from weir.sweeps.trial_message import results_in


class _StatusView(ApiStruct):
    container_statuses: list[ContainerRun] = field(default_factory=list)


class _SpecView(ApiStruct):
    node_name: str = ""


class TrialRunView(ApiStruct):
    """A pod of a trial."""

    metadata: Metadata
    spec: _SpecView = field(default_factory=_SpecView)
    status: _StatusView = field(default_factory=_StatusView)

    @property
    def ends(self) -> list[ContainerStep]:
        """Return the ends of its containers."""
        states = (status.state.terminated for status in self.status.container_statuses)
        return [state for state in states if state is not None]

    def ran_s(self, now_s: float) -> float:
        """Return the seconds for which its containers ran, until now if their end is unknown."""
        seconds = sum(end.ran_s for end in self.ends)
        for status in self.status.container_statuses:
            if status.state.running is not None and (begun_s := seconds_of(status.state.running.started_at)):
                seconds += max(0.0, now_s - begun_s)
        return seconds


def new_results(
    runs: Iterable[TrialRunView], rungs: Sequence[int], passed: int
) -> tuple[list[ReachedRung], float]:
    """Return the results after the first `passed` rungs, and the seconds for which the pods ran.

    Several pods may have messages: the one with the most results counts.
    """
    longest: list[ReachedRung] = []
    seconds = 0.0
    for run in runs:
        for end in run.ends:
            results = _reached(end, rungs, passed)
            if len(results) > len(longest):
                longest = results
            seconds += end.ran_s
    return longest, seconds


def _reached(end: ContainerStep, rungs: Sequence[int], passed: int) -> list[ReachedRung]:
    results: list[ReachedRung] = []
    for step, value in results_in(end.message):
        while passed < len(rungs) and rungs[passed] <= step:
            results.append(ReachedRung(passed, step, end.finished_at or "", value))
            passed += 1
    return results
