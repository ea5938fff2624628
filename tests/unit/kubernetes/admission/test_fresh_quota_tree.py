"""Reviews count objects that were written a moment before, although no watch has reported them yet."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from tests.unit.kubernetes.admission.test_webhooks import KEY, answers, served

from weir.kubernetes.admission.fresh_quota_tree import FreshQuotaTree
from weir.kubernetes.admission.reviews import QuotaTree
from weir.kubernetes.api.errors import ApiUnreachable
from weir.kubernetes.crd.queue_tree import QueueObject

NOW = QuotaTree(
    departments={"lab": QueueObject("lab", {}, 1.0)},
    projects={"vision": QueueObject("vision", {"namespaces": ["team"]}, 2.0)},
)


class Lists:
    """An API server that is asked for all quota objects."""

    def __init__(self, *found: QuotaTree | Exception) -> None:
        self.found = list(found)
        self.count = 0

    async def __call__(self) -> QuotaTree:
        self.count += 1
        await asyncio.sleep(0)
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found


def review(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> bytes:
    made = {"metadata": {"name": name}, "spec": spec}
    request = {"uid": "u", "kind": {"kind": kind}, "name": name, "namespace": namespace, "object": made}
    return json.dumps({"request": {**request, "operation": "CREATE"}}).encode()


async def asked(tmp_path: Path, lists: Lists, path: str, body: bytes) -> dict[str, Any]:
    what = served(QuotaTree(), fresh_quota_tree=FreshQuotaTree(lists))
    ((status, reply),) = await answers(what, [("POST", f"/{path}/{KEY}", body)], tmp_path)
    assert status == 200
    response: dict[str, Any] = json.loads(reply)["response"]
    return response


async def test_project_of_a_department_that_was_just_made_is_taken(tmp_path: Path) -> None:
    lists = Lists(NOW)
    body = review("Project", "speech", {"department": "lab"})
    assert (await asked(tmp_path, lists, "validate", body))["allowed"]
    assert lists.count == 1
    refused = await asked(tmp_path, lists, "validate", review("Project", "speech", {"department": "none"}))
    assert refused["status"]["message"] == "there is no department none; write one of lab"


async def test_pod_of_a_project_that_was_just_made_gets_weir_as_its_scheduler(tmp_path: Path) -> None:
    asks = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    patched = await asked(tmp_path, Lists(NOW), "mutate", review("Pod", "a", asks, "team"))
    assert "weir" in base64.b64decode(patched["patch"]).decode()
    lists = Lists(NOW)
    assert "patch" not in await asked(tmp_path, lists, "mutate", review("Pod", "a", asks, "elsewhere"))
    assert lists.count == 1
    plain = {"containers": [{"name": "a"}]}
    assert "patch" not in await asked(tmp_path, lists, "mutate", review("Pod", "a", plain, "team"))
    assert lists.count == 1, "a pod without GPUs is none of Weir's in any project"


async def test_first_answer_counts_if_the_api_server_gives_none(tmp_path: Path) -> None:
    away = Lists(ApiUnreachable("away", may_have_happened=False))
    refused = await asked(tmp_path, away, "validate", review("Project", "speech", {"department": "lab"}))
    assert not refused["allowed"]
    assert away.count == 1


async def test_reviews_share_a_read_that_begins_after_they_came() -> None:
    lists = Lists(QuotaTree(), NOW)
    fresh = FreshQuotaTree(lists, between_s=0.0, within_s=60.0)
    first = asyncio.create_task(fresh.tree())
    while not lists.count:  # noqa: ASYNC110
        await asyncio.sleep(0)
    later = [asyncio.create_task(fresh.tree()) for _ in range(3)]
    assert await first == QuotaTree()
    assert await asyncio.gather(*later) == [NOW] * 3
    assert lists.count == 2


async def test_few_reviews_wait_and_reads_keep_their_distance() -> None:
    lists = Lists(NOW)
    fresh = FreshQuotaTree(lists, between_s=3600.0, waiting_max=2, within_s=60.0)
    assert await fresh.tree() == NOW
    fresh._within_s = 0.05
    waiting = [asyncio.create_task(fresh.tree()) for _ in range(5)]
    assert await asyncio.gather(*waiting) == [None] * 5
    assert lists.count == 1
    assert fresh._next is not None
    fresh._next.cancel()
