"""Choice of the workloads of a list, and their pages."""

import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from weir.api.comma_lists import comma_words, user_words
from weir.cli.options.mistakes import WrongOption
from weir.cli.options.option_types import NOT_EMPTY, Repeated, Switch
from weir.cli.options.past_time import since_time
from weir.cli.output.outputs import ProjectOption
from weir.cli.output.terminal import plain
from weir.client.errors import Refused

if TYPE_CHECKING:
    from weir.api.workload_list import WorkloadPage, WorkloadRow
    from weir.client.api import Pool

LIVE = ("pending", "starting", "running", "stopping")
_PAGE = 500


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Choice of the workloads of a list."""

    project: ProjectOption = None
    """Only workloads of this project, or of several between commas."""
    all_: Annotated[bool, Parameter(name=("--all", "-A"), negative=())] = False
    """Include workloads that are over."""
    status: Repeated = ()
    """Only workloads with this status. Repeat it for more statuses."""
    type_: Annotated[str | None, Parameter(name="--type")] = None
    """Only workloads of this type: train, build or inference."""
    user: Annotated[str | None, Parameter(name=("--user", "-u")), NOT_EMPTY] = None
    """Only workloads of this person, or of several between commas."""
    me: Switch = False
    """Only your own workloads."""
    search: Annotated[str | None, Parameter(name=("--search", "-q"))] = None
    """Only workloads with this text in their name, project or user, in any case."""
    since: str | None = None
    """Only workloads submitted since then: an age such as 2h or 3d, or a date such as 2026-11-01."""

    @property
    def statuses(self) -> tuple[str, ...]:
        """Return the statuses, which may be between commas."""
        return comma_words(",".join(self.status))

    @property
    def nothing(self) -> str:
        """Return a sentence about a list without workloads: the options that chose, and a wider choice."""
        written = (
            ("--project", self.project),
            ("--status", ",".join(self.status)),
            ("--type", self.type_),
            ("--user", self.user),
            ("--search", self.search),
            ("--since", self.since),
        )
        words = [f"{option} {plain(shlex.quote(value))}" for option, value in written if value]
        narrow = " ".join([*words, *(["--me"] if self.me else [])])
        if not narrow:
            return (
                "There are no workloads; `weir submit` queues one."
                if self.all_
                else "No workload is pending or running; --all includes those that are over."
            )
        if self.all_ or self.status:
            return f"No workload matches {narrow}; `weir list --all` shows all."
        return f"No pending or running workload matches {narrow}; --all includes those that are over."

    def filter(self) -> "ListFilter":
        """Return the filter, without the person of --me.

        Raises:
            ValueError: --since is no time, or two options contradict each other.
        """
        if self.me and self.user is not None:
            raise ValueError("--me and --user contradict each other: leave one out")
        since_s = None if self.since is None else since_time(self.since)
        ended = self.all_ or any(word not in LIVE for word in self.statuses)
        return ListFilter(self.project, self.statuses, self.type_, self.user, self.search, ended, since_s)


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Filter of `weir list`."""

    project: str | None = None
    status: tuple[str, ...] = ()
    type: str | None = None
    user: str | None = None
    search: str | None = None
    ended: bool = False
    since_s: float | None = None

    def all(self, pool: "Pool", limit: int) -> "tuple[list[WorkloadRow], WorkloadPage]":
        """Return up to `limit` workloads (0: all), and the last page with the numbers of the pool."""
        rows: list[WorkloadRow] = []
        after: str | None = None
        while True:
            seen = len(rows)
            page = pool.page(
                project=self.project,
                status=self.status,
                type=self.type,
                user=self.user,
                query=self.search,
                ended=self.ended,
                since_s=self.since_s,
                limit=min(_PAGE, limit - len(rows)) if limit else _PAGE,
                after=after,
            )
            rows += [row for row in page.items if row.submitted_s >= (self.since_s or 0.0)]
            # An older server ignores the time. Rows come newest first, so later pages are older, too
            if len(rows) < seen + len(page.items):
                return rows, page.model_copy(update={"total": len(rows)})
            if page.next is None or not page.items or 0 < limit <= len(rows):
                return rows, page
            after = page.next

    def holds(self, row: "WorkloadRow") -> bool:
        """Return True if a workload matches. One that just ended matches, so that its end is printed."""
        texts = (row.name.lower(), row.project.lower(), row.user.lower())
        users = user_words(self.user)
        return (
            chosen(self.project, row.project)
            and (not self.status or row.status in self.status)
            and chosen(self.type, row.type)
            and (row.user in users or not users)
            and any((self.search or "").lower() in text for text in texts)
            and row.submitted_s >= (self.since_s or 0.0)
        )


def chosen(text: str | None, word: str | None) -> bool:
    """Return True if a word is among those between commas, as the pool reads them; no words choose all."""
    words = comma_words(text)
    return not words or word in words


def check_projects(pool: "Pool", project: str | None, listed: Collection[str | None]) -> None:
    """Name the projects of an option that the pool doesn't have; `listed` are those of the listed rows.

    Raises:
        WrongOption: a project is missing, and no row is listed.
    """
    unseen = [word for word in comma_words(project) if word not in listed]
    try:
        names = {row.name for row in pool.projects()} if unseen else set()
    except Refused:  # on a cluster, some people may not read its projects
        return
    missing = " or ".join(word for word in unseen if word not in names)
    if not missing:
        return
    text = f"--project: there is no project {missing}; `weir project list` shows which there are"
    if not listed:
        raise WrongOption(text)
    print(f"weir: {plain(text)}.", file=sys.stderr)
