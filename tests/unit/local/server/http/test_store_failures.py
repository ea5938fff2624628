"""Answers while the database fails: a read says nothing of changes."""

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from weir.local.server.http import problem_details
from weir.store.errors import StoreFailed

FULL = "The disk that holds the database is full. Free some space and try again."


@pytest.mark.parametrize(("method", "detail"), [("GET", FULL), ("POST", f"Nothing was changed: {FULL}")])
async def test_only_a_change_says_that_nothing_was_changed(method: str, detail: str) -> None:
    app = FastAPI()
    problem_details.install(app)

    @app.api_route("/fails", methods=["GET", "POST"])
    async def fails() -> None:
        raise StoreFailed(FULL, is_full=True)

    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://pool") as client:
        answer = await client.request(method, "/fails")
    assert (answer.status_code, answer.json()["detail"]) == (503, detail)
