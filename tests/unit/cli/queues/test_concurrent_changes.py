"""Changes of a project by two administrators at once: none is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from weir.api.answers import Problem, QueueDetail
from weir.cli.queues import quotas
from weir.cli.queues.options import QuotaOptions
from weir.client.errors import Refused


class SharedPool:
    """A pool in which another administrator changes a project between a read and a write."""

    def __init__(self, others: int) -> None:
        self.row = QueueDetail(name="vision", kind="project", quota={"gpu": 2.0}, version="1")
        self.others = others

    def project(self, name: str) -> QueueDetail:
        found = self.row
        if self.others:
            self.others -= 1
            changed = {"priority": found.priority + 1, "version": str(int(found.version) + 1)}
            self.row = found.model_copy(update=changed)
        return found

    def set_project(self, name: str, /, *, version: str | None = None, **words: Any) -> QueueDetail:
        if version != self.row.version:
            raise Refused(Problem(title="Conflict", status=409, detail=f"{name} was changed meanwhile."))
        self.row = QueueDetail(**{**words, "name": name, "kind": "project", "version": f"{version}0"})
        return self.row

    department = set_department = None


def set_quota(pool: SharedPool, monkeypatch: pytest.MonkeyPatch) -> int:
    @contextmanager
    def connect() -> Iterator[SharedPool]:
        yield pool

    monkeypatch.setattr(quotas, "connect", connect)
    return quotas.put("project", "vision", None, QuotaOptions(gpus="4"), new=False)


def test_change_is_made_to_the_settings_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SharedPool(others=2)
    assert set_quota(pool, monkeypatch) == 0
    assert (pool.row.quota, pool.row.priority) == ({"gpu": 4.0}, 102)


def test_refusal_is_shown_if_the_others_never_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = SharedPool(others=1000)
    with pytest.raises(Refused, match="changed meanwhile"):
        set_quota(pool, monkeypatch)
    assert pool.row.quota == {"gpu": 2.0}
