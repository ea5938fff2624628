"""Choice of the workloads of a list, and their pages."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir.api.comma_lists import comma_words
from weir.cli.option_mistakes import WrongOption
from weir.client.errors import Refused

if TYPE_CHECKING:
    from weir.api.workload_list import WorkloadPage, WorkloadRow
    from weir.client.api import Pool

_PAGE = 500


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
            page = pool.page(
                project=self.project,
                status=self.status,
                type=self.type,
                user=self.user,
                query=self.search,
                ended=self.ended,
                limit=min(_PAGE, limit - len(rows)) if limit else _PAGE,
                after=after,
            )
            rows += [row for row in page.items if row.submitted_s >= (self.since_s or 0.0)]
            # Rows come newest first, so older ones don't matter
            if self.since_s is not None and len(rows) < len(page.items):
                return rows, page.model_copy(update={"total": len(rows)})
            if page.next is None or not page.items or 0 < limit <= len(rows):
                return rows, page
            after = page.next

    def holds(self, row: "WorkloadRow") -> bool:
        """Return True if a workload matches. One that just ended matches, so that its end is printed."""
        texts = (row.name.lower(), row.project.lower(), row.user.lower())
        return (
            chosen(self.project, row.project)
            and (not self.status or row.status in self.status)
            and chosen(self.type, row.type)
            and chosen(self.user, row.user)
            and any((self.search or "").lower() in text for text in texts)
            and row.submitted_s >= (self.since_s or 0.0)
        )


def chosen(text: str | None, word: str | None) -> bool:
    """Return True if a word is among those between commas, as the pool reads them; no words choose all."""
    words = comma_words(text)
    return not words or word in words


def refuse_missing_project(pool: "Pool", project: str | None) -> None:
    """Refuse the projects of an option if the pool doesn't have them all.

    Raises:
        WrongOption: there is no project of a name.
    """
    words = comma_words(project)
    try:
        names = {row.name for row in pool.projects()} if words else set()
    except Refused:  # on a cluster, some people may not read its projects
        return
    missing = next((word for word in words if word not in names), None)
    if missing is not None:
        raise WrongOption(
            f"--project: there is no project {missing}; `weir project list` shows which there are"
        )
