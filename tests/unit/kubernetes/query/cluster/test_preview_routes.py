"""Previews of changed quotas, through the API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.unit.kubernetes.query.test_routes import ANN, Answers, Rights, served

from weir.kubernetes.query.aggregation import http_exchange
from weir.kubernetes.query.aggregation.discovery import ROOT
from weir.kubernetes.query.cluster import preview_routes


async def tried(session: aiohttp.ClientSession, path: str, body: bytes) -> tuple[int, Any]:
    async with session.post(f"{ROOT}/{path}", data=body, headers=ANN) as answer:
        return answer.status, await answer.json()


async def test_a_preview_names_the_workloads_that_stop_and_start(tmp_path: Path) -> None:
    async with served(tmp_path, Rights(), Answers()) as session:
        for kind in ("projects", "departments"):
            status, found = await tried(session, f"{kind}/team/preview", b'{"spec": {"quota": {"gpu": 1}}}')
            assert (status, found["kind"]) == (201, "QuotaPreview")
            assert [(each["workload"], each["sentence"]) for each in found["stops"]] == [
                ("ns/job-a", "Reclaim.")
            ]
            assert found["stops"][0]["gpus"] == 1
            assert [each["workload"] for each in found["starts"]] == ["ns/job-b"]
            assert found["warnings"] == ["{'quota': {'gpu': 1}}"]


async def test_a_preview_is_for_those_who_read_all_workloads(tmp_path: Path) -> None:
    async with served(tmp_path, Rights(allowed=False), Answers()) as session:
        status, found = await tried(session, "projects/team/preview", b'{"spec": {}}')
        assert (status, "right to list workloads" in found["message"]) == (403, True)


async def test_a_preview_that_cant_be_read_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_routes, "BYTES_MAX", 10_000)
    async with served(tmp_path, Rights(), Answers()) as session:
        for body, code, word in (
            (b"{", 400, "The body is no spec"),
            (b'{"spec": 1}', 400, "The body is no spec"),
            (b'{"spec": {"a": ' + b"[" * 5_000, 400, "The body is no spec"),
            (b'{"spec": {}}', 422, "Project team has no quota."),
            (b" " * 10_001, 413, "at most 10000 bytes"),
        ):
            status, found = await tried(session, "projects/team/preview", body)
            assert (status, found["code"], word in found["message"]) == (code, code, True), found


async def test_a_body_that_never_ends_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "BODY_S_MAX", 0.2)

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with served(tmp_path, Rights(), Answers()) as session:
        path = f"{ROOT}/projects/team/preview"
        async with session.post(path, data=endless(), headers=ANN) as answer:
            assert (answer.status, (await answer.json())["message"]) == (
                408,
                "The request takes too long: send it again.",
            )
        assert (await tried(session, "projects/team/preview", b'{"spec": {"weight": 1}}'))[0] == 201
