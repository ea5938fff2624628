"""Workloads that an action is for: names, patterns, and options that choose among the workloads of a pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.cli.list_filter import ListFilter
from weir.cli.outputs import ProjectOption
from weir.model.array_indices import split_name

if TYPE_CHECKING:
    from weir.client.api import Pool

_PATTERN = frozenset("*?[")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Selection:
    """Choice among the workloads that aren't over."""

    project: ProjectOption = None
    """Only workloads of this project; without a name all of them."""
    me: Annotated[bool, Parameter(negative=())] = False
    """Only your own workloads; without a name all of them."""

    def names(self, pool: "Pool", written: Sequence[str]) -> list[str]:
        """Return the names of the chosen workloads, each once.

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
