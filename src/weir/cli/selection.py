"""Workloads that an action is for: names, patterns, and options that choose among the workloads of a pool."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.list_filter import ListFilter
from weir.cli.outputs import ProjectOption
from weir.cli.terminal import plain
from weir.model.array_indices import split_name

if TYPE_CHECKING:
    from weir.client.api import Pool

_PATTERN = frozenset("*?[")
_ENDED_MAX = 1000
"""Ended workloads among which a rerun chooses, newest first."""
_SHOWN_MAX = 5
_FAILED = ("failed", "stopped")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Selection:
    """Choice among the workloads of a pool."""

    project: ProjectOption = None
    """Only workloads of this project; without a name all of them."""
    me: Annotated[bool, Parameter(negative=())] = False
    """Only your own workloads; without a name all of them."""
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), negative=())] = False
    """Don't ask before several workloads are changed."""

    def names(self, pool: "Pool", written: Sequence[str], *, over: bool = False) -> list[str]:
        """Return the names of the chosen workloads, each once.

        `over`: choose among those that failed or were stopped, instead of those that aren't over.

        Raises:
            ValueError: nothing is chosen, or a pattern matches nothing.
        """
        chooses = self.project is not None or self.me
        patterns = [name for name in written if _PATTERN & set(name) and split_name(name) is None]
        if not chooses and not patterns:
            if not written:
                raise ValueError("no workload is named; `weir list` shows which there are")
            return list(dict.fromkeys(written))
        user = pool.whoami().user if self.me else None
        rows, _ = ListFilter(project=self.project, user=user).all(pool, 0)
        existing = [row.name for row in rows]
        if over:
            live = frozenset(existing)
            ended = ListFilter(project=self.project, status=_FAILED, user=user, ended=True)
            rows, _ = ended.all(pool, _ENDED_MAX)
            existing = list(dict.fromkeys(row.name for row in rows if row.name not in live))
        if not written:
            return existing
        found: dict[str, None] = {}
        for name in written:
            matching = [each for each in existing if fnmatchcase(each, name)] if name in patterns else [name]
            if not matching:
                raise ValueError(
                    f"no workload that you chose is named {name!r}; `weir list` shows which there are"
                )
            if name not in patterns and name not in existing:
                raise ValueError(
                    f"{name} isn't among the workloads that you chose: leave out --me and --project"
                )
            found.update(dict.fromkeys(matching))
        return list(found)

    def is_confirmed(self, written: Sequence[str], chosen: Sequence[str], verb: str) -> bool:
        """Return True if workloads may be changed: they were named, or a person says so."""
        if self.yes or len(chosen) <= 1 or set(chosen) <= set(written):
            return True
        shown = ", ".join(plain(name) for name in chosen[:_SHOWN_MAX])
        more = f" and {len(chosen) - _SHOWN_MAX:,} more" if len(chosen) > _SHOWN_MAX else ""
        print(f"{shown}{more}", file=sys.stderr)
        if sys.stdin.isatty() and sys.stderr.isatty():
            print(f"{verb.capitalize()} these {len(chosen):,} workloads? [y/N] ", end="", file=sys.stderr)
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() in ("y", "yes"):
                return True
        print(f"Nothing has changed. --yes {verb}s {len(chosen):,} workloads.", file=sys.stderr)
        return False
