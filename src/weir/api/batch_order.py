"""Order of the workloads of a batch: each comes after those of the batch that it depends on."""

from collections.abc import Mapping, Sequence

from weir.api.submissions import Submission

SHOWN_MAX = 8
"""Workloads of a circle that a refusal names."""
_CONDITIONS = ("after", "after_ok", "after_not_ok", "after_any")


class BatchOrderError(ValueError):
    """A batch in which two workloads have the same name, or some wait for each other."""

    def __init__(self, position: int, field: str, text: str) -> None:
        super().__init__(f"The batch: workloads[{position}].{text}")
        self.errors = [{"field": f"workloads[{position}].{field}", "message": text}]


def dependency_names(submission: Submission) -> list[str]:
    """Return the names of the workloads that a submission depends on."""
    return [name for key in _CONDITIONS for name in getattr(submission, key)]


def ordered_positions(submissions: Sequence[Submission]) -> list[int]:
    """Return the positions of the submissions in an order in which each follows its dependencies.

    Raises:
        BatchOrderError: two have the same name, or some wait for each other.
    """
    positions = _positions(submissions)
    needs = [
        {positions[name] for name in dependency_names(submission) if name in positions}
        for submission in submissions
    ]
    followers: list[list[int]] = [[] for _ in submissions]
    for position, needed in enumerate(needs):
        for dependency in needed:
            followers[dependency].append(position)
    left = [len(needed) for needed in needs]
    order = [position for position, number in enumerate(left) if not number]
    for position in order:  # the loop appends to it
        for follower in followers[position]:
            left[follower] -= 1
            if not left[follower]:
                order.append(follower)
    if len(order) < len(submissions):
        _refuse_circle(submissions, needs, left)
    return order


def _positions(submissions: Sequence[Submission]) -> Mapping[str, int]:
    positions: dict[str, int] = {}
    for position, submission in enumerate(submissions):
        name = submission.name
        if name is None:
            continue
        if name in positions:
            text = f"name: workloads[{positions[name]}] is called {name} too; name one differently"
            raise BatchOrderError(position, "name", text)
        positions[name] = position
    return positions


def _refuse_circle(submissions: Sequence[Submission], needs: Sequence[set[int]], left: Sequence[int]) -> None:
    """Refuse a batch with the circle that its first blocked workload leads to."""
    position = next(position for position, number in enumerate(left) if number)
    path: list[int] = []
    while position not in path:
        path.append(position)
        position = min(dependency for dependency in needs[position] if left[dependency])
    circle = [*path[path.index(position) :], position]
    names = [str(submissions[position].name) for position in circle]
    shown = names if len(names) <= SHOWN_MAX else [*names[: SHOWN_MAX - 1], "…", names[-1]]
    text = f"after: {' waits for '.join(shown)}: none of them could ever start; leave one condition out"
    raise BatchOrderError(circle[0], "after", text)
