"""Checkpoint directories, one for each workload that has saved something."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from fastapi import APIRouter, Response

from weir.api.answers import CheckpointPage, CheckpointRow
from weir.local.server.access.authorization import Action, Person, may
from weir.local.server.http.strict_route import StrictRoute
from weir.local.server.pool import PoolService
from weir.local.server.routes.common import (
    After,
    Limit,
    Requester,
    ThePool,
    json_response,
    position,
    problems,
)

routes = APIRouter(prefix="/api/v1/checkpoints", tags=["checkpoints"], route_class=StrictRoute)
ENTRIES_MAX = 20_000
"""Files and directories that are counted below one checkpoint directory; its owner may make any number."""


@routes.get("", response_model=CheckpointPage, responses=problems(422))
async def list_checkpoints(
    pool: ThePool, person: Requester, limit: Limit = 100, after: After = None
) -> Response:
    """Checkpoint directories of the projects one may act in, newest workload first."""
    return json_response(await asyncio.to_thread(_page, pool, person, limit, position(after)))


def _page(pool: PoolService, person: Person, limit: int, after: int | None) -> CheckpointPage:
    rows: list[CheckpointRow] = []
    uids = sorted(_uids(pool.home / "checkpoints"), reverse=True)
    if not may(person, Action.ADMINISTER):
        uids = [uid for uid in uids if _acts_on(pool, person, uid)]
    for uid in uids:
        if after is not None and uid >= after:
            continue
        row = _row(pool, uid)
        if row is None:
            continue
        if len(rows) == limit:
            return CheckpointPage(total=len(uids), next=str(rows[-1].uid), items=rows)
        rows.append(row)
    return CheckpointPage(total=len(uids), next=None, items=rows)


def _acts_on(pool: PoolService, person: Person, uid: int) -> bool:
    stored = pool.store.workloads.get(uid)
    return stored is not None and may(person, Action.VIEW, stored.row.project)


def _uids(home: Path) -> Iterator[int]:
    with os.scandir(home) as entries:
        for entry in entries:
            if entry.name.isascii() and entry.name.isdecimal() and entry.is_dir(follow_symlinks=False):
                yield int(entry.name)


def _row(pool: PoolService, uid: int) -> CheckpointRow | None:
    """Return the row of a directory; None if it is empty."""
    stored = pool.store.workloads.get(uid)
    path = pool.home / "checkpoints" / str(uid)
    bytes_, files, saved_s, whole = _measured(path)
    if not files:
        return None
    live = pool.view.rows.get(uid)
    return CheckpointRow(
        uid=uid,
        name=stored.row.name if stored is not None else None,
        project=stored.row.project if stored is not None else None,
        user=stored.row.user if stored is not None else None,
        status=live.status if live is not None else None if stored is None else stored.row.status,
        path=str(path),
        bytes=bytes_,
        files=files,
        saved_s=saved_s,
        whole=whole,
    )


def _measured(path: Path) -> tuple[int, int, float, bool]:
    """Return bytes on the disk, files, the newest change, and True if all of them were counted."""
    bytes_, files, newest_s, entries_seen = 0, 0, 0.0, 0
    below = [str(path)]
    while below:
        try:
            with os.scandir(below.pop()) as entries:
                for entry in entries:
                    entries_seen += 1
                    if entries_seen > ENTRIES_MAX:
                        return bytes_, files, newest_s, False
                    seen = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                        continue
                    files += 1
                    bytes_ += seen.st_blocks * 512
                    newest_s = max(newest_s, seen.st_mtime)
        except OSError:
            continue  # deleted meanwhile, or not readable for the server
    return bytes_, files, newest_s, True
