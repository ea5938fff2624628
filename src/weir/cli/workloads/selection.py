"""Workloads that an action changes: by name, by pattern, or chosen from a pool's list by options."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cyclopts import Parameter

from weir.cli.options.option_types import Switch, YesSwitch
from weir.cli.output.formatting import counted
from weir.cli.output.outputs import ProjectOption
from weir.cli.output.terminal import is_agreed, plain
from weir.cli.workloads.list_filter import ListFilter, check_projects
from weir.model.array_indices import split_name

if TYPE_CHECKING:
    from weir.api.workload_list import WorkloadRow
    from weir.client.api import Pool

_PATTERN = frozenset("*?[")
_ENDED_MAX = 2000
"""Ended workloads among which a rerun chooses, newest first."""
_SHOWN_MAX = 5
_FAILED = ("failed", "stopped")
_OVER = (*_FAILED, "succeeded")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Selection:
    """Choice among the workloads of a pool. A pattern is for one's own, unless an option says otherwise."""

    project: ProjectOption = None
    """Only workloads of this project, of all people. Without NAMES, all of these."""
    me: Switch = False
    """Only your own workloads. Without NAMES, all of these."""
    all_users: Switch = False
    """Apply patterns to the workloads of all people; by default only to your own."""
    yes: YesSwitch = False
    """Don't ask before several workloads are changed."""

    def names(self, pool: "Pool", written: Sequence[str], *, over: bool = False) -> list[str]:
        """Return the names of the chosen workloads, each once.

        `over`: choose among those that failed or were stopped, instead of those that aren't over.

        Raises:
            ValueError: nothing is chosen, or a pattern matches nothing.
        """
        if self.me and self.all_users:
            raise ValueError("--me and --all-users contradict each other: leave one out")
        chooses = self.project is not None or self.me
        patterns = [name for name in written if _PATTERN & set(name) and split_name(name) is None]
        if not chooses and not patterns:
            if not written:
                raise ValueError("no workload is named; `weir list` shows which there are")
            return list(dict.fromkeys(written))
        is_own = self.me or not (self.all_users or self.project is not None)
        user = pool.whoami().user if is_own else None
        rows = self._rows(pool, user if self.me else None, over=over)
        check_projects(pool, self.project, {row.project for row in rows})
        own = {row.name for row in rows if user in (None, row.user)}
        if not written:
            return [name for name in dict.fromkeys(row.name for row in rows) if name in own]
        names = {row.name: names_of(row.name, in_cluster=pool.address.is_cluster) for row in rows}
        selected, left = _matching(written, patterns, names, own, chooses=chooses)
        if left:
            also = f"{counted(len(left), 'workload')} of other people"
            print(f"{also} not chosen: --all-users includes such workloads.", file=sys.stderr)
        return selected

    def _rows(self, pool: "Pool", user: str | None, *, over: bool) -> "list[WorkloadRow]":
        """Return the workloads to choose from, of one user or of all."""
        rows, _ = ListFilter(project=self.project, user=user).all(pool, 0)
        if not over:
            return rows
        newest = {row.name: row for row in rows}
        ended = ListFilter(project=self.project, status=_OVER, user=user, ended=True)
        rows, _ = ended.all(pool, _ENDED_MAX)
        for row in rows:  # newest first: a name stands for the last workload that had it
            newest.setdefault(row.name, row)
        return [row for row in newest.values() if row.status in _FAILED]

    def is_confirmed(self, written: Sequence[str], chosen: Sequence[str], verb: str) -> bool:
        """Return True if workloads may be changed: they were named, or the person has confirmed it."""
        if self.yes or len(chosen) <= 1 or set(chosen) <= set(written):
            return True
        shown = ", ".join(plain(name) for name in chosen[:_SHOWN_MAX])
        others = f" and {len(chosen) - _SHOWN_MAX:,} more" if len(chosen) > _SHOWN_MAX else ""
        print(f"{shown}{others}", file=sys.stderr)
        if is_agreed(f"{verb.capitalize()} these {len(chosen):,} workloads?"):
            return True
        print(f"Nothing has changed. --yes {verb}s {len(chosen):,} workloads.", file=sys.stderr)
        return False


def names_of(name: str, *, in_cluster: bool) -> tuple[str, ...]:
    """Return the short names of a workload: `dev` for `vision/job-dev` of a cluster."""
    if not in_cluster:
        return (name,)
    bare = name.rpartition("/")[2]
    return name, bare, bare.removeprefix("job-")


def _matching(
    written: Sequence[str],
    patterns: Sequence[str],
    existing: Mapping[str, Sequence[str]],
    own: Collection[str],
    *,
    chooses: bool,
) -> tuple[list[str], list[str]]:
    """Return the chosen names, and the matching names of other people's workloads.

    `existing` has the names by which people know each workload.

    Raises:
        ValueError: a pattern matches nothing, or a name isn't among those that options choose.
    """
    selected: dict[str, None] = {}
    left: dict[str, None] = {}
    for name in written:
        if name not in patterns:
            if chooses and not any(name in aliases for aliases in existing.values()):
                raise ValueError(
                    f"{name} isn't among the workloads that you chose: leave out --me and --project"
                )
            selected[name] = None
            continue
        matching = [
            candidate
            for candidate, aliases in existing.items()
            if any(fnmatchcase(one, name) for one in aliases)
        ]
        chosen = [candidate for candidate in matching if candidate in own]
        if not chosen and matching:
            others = counted(len(matching), "workload")
            raise ValueError(
                f"no workload of yours is named {name!r}; --all-users includes {others} of others"
            )
        if not chosen:
            raise ValueError(
                f"no workload that you chose is named {name!r}; `weir list` shows which there are"
            )
        selected.update(dict.fromkeys(chosen))
        left.update(dict.fromkeys(candidate for candidate in matching if candidate not in own))
    return list(selected), [name for name in left if name not in selected]
