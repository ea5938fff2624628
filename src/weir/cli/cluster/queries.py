"""REST calls of a pool on a cluster: reads go to Weir's API, changes to the objects themselves."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from pydantic import BaseModel

from weir.api.access import WhoAmI
from weir.api.answers import Explanation, Status, WhyAnswer, WorkloadDetail
from weir.api.series import SeriesAnswer
from weir.cli.cluster.errors import not_here
from weir.cli.cluster.lookup import JOBS, Lookup, LookupResult
from weir.cli.cluster.person import user_of
from weir.cli.cluster.query_api import QueryApi
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of

if TYPE_CHECKING:
    from weir.cli.cluster.queued_owner import QueuedOwner


class ClusterQueries:
    """Answers about one cluster: `within` is the default namespace, `home` Weir's own."""

    def __init__(self, api: ApiClient, within: str, home: str, *, namespace: str | None) -> None:
        self._api = api
        self._queries = QueryApi(api, within, namespace)
        self.lookup = Lookup(api, self._queries, namespace)
        self._home = home

    # Workloads

    async def workloads(self, params: Mapping[str, str]) -> bytes:
        """Return the requested workloads, newest first."""
        return await self._queries.everywhere("workloads", params)

    async def workload(self, name: str) -> bytes:
        """Return all details of a workload."""
        workload = await self.lookup.workload(name)
        if workload.queued is not None:
            from weir.cli.cluster.queued_owner import read_queued_owner

            owner = await read_queued_owner(self._api, self._home, workload)
            return _encoded(_just_queued(workload, owner))
        return await self._queries.get(workload.path)

    async def why(self, name: str, params: Mapping[str, str]) -> bytes:
        """Return the reason of a pending workload, and changes that would let it start now."""
        workload = await self.lookup.workload(name)
        if workload.queued is not None:
            return _encoded(await self._why_queued(workload))
        return await self._queries.get(f"{workload.path}/why", params)

    async def series(self, name: str) -> bytes:
        """Return the curves of a workload's reported values."""
        workload = await self.lookup.workload(name)
        if workload.queued is not None:
            return _encoded(SeriesAnswer(name=workload.key, stands_in=False, series=[]))
        return await self._queries.get(f"{workload.path}/series")

    async def decision(self, name: str) -> bytes:
        """Return how the nodes score for a workload, and the victims that it may evict."""
        workload = await self.lookup.workload(name)
        return await self._queries.get(f"{workload.path}/decision")

    async def preview(self, kind: str, name: str, spec: Mapping[str, object]) -> bytes:
        """Return the effect of a spec of a department or project on the next decision."""
        return await self._queries.post(f"{kind}/{quote(name, safe='')}/preview", {"spec": spec})

    async def events(self, params: Mapping[str, str]) -> bytes:
        """Return events, newest first."""
        name = params.get("workload")
        if not name:
            return await self._queries.everywhere("events", params)
        workload = await self.lookup.workload(name)
        return await self._queries.get(
            f"namespaces/{workload.namespace}/events", {**params, "workload": workload.key}
        )

    async def _why_queued(self, workload: LookupResult) -> WhyAnswer:
        """Return the answer for a Job or a pod that Weir doesn't know."""
        from weir.cli.cluster.queued_owner import read_queued_owner

        owner = await read_queued_owner(self._api, self._home, workload)
        if owner.suspension:
            reason = Explanation(why="suspended", sentence=owner.suspension)
            return WhyAnswer(name=workload.key, status="pending", reason=reason)
        if not owner.other_scheduler:
            return WhyAnswer(name=workload.key, status="pending", reason=None)
        sentence = (
            f"it isn't scheduled by Weir: its pods name the scheduler {owner.other_scheduler}, and "
            f"{owner.running} of {owner.active} run; pods with schedulerName: {owner.scheduler} are "
            "scheduled by Weir"
        )
        reason = Explanation(why="other_scheduler", sentence=sentence)
        status: Status = "running" if owner.running else "pending"
        return WhyAnswer(name=workload.key, status=status, reason=reason)

    async def act(self, name: str, action: str) -> bytes:
        """Stop, suspend or resume a workload through the owner of its pods."""
        workload = await self.lookup.workload(name)
        owner, namespace = await self.lookup.owner(workload), workload.namespace
        if not owner.is_job:
            from weir.cli.cluster.stopped_owners import suspension
            from weir.kubernetes.translate.owner_commands import kubectl

            named = (namespace, owner.api_version, owner.kind, owner.name)
            command = (
                kubectl("delete", *named)
                if action == "stop"
                else suspension(owner, namespace, suspend=action == "suspend")
            )
            raise not_here(f"{workload.key} is made by a {owner.kind}, which does this itself: {command}")
        path = path_of(JOBS, "jobs", namespace, owner.name)
        if action == "stop":
            await self._api.delete(path, uid=owner.uid, propagation="Background")
        else:
            if action == "resume":
                await self._refuse_to_resume(workload.key, path)
            change = {"spec": {"suspend": action == "suspend"}}
            await self._api.patch(path, change, Patch.MERGE, ApiObject)
        return msgspec.json.encode(workload.row) if workload.row else _encoded(_just_queued(workload))

    async def _refuse_to_resume(self, name: str, path: str) -> None:
        """Refuse to resume a Job for another program, which would only suspend it again."""
        from weir.kubernetes.translate.owner_suspensions import resumed_by

        resumer = resumed_by(await self._api.get(path, dict[str, Any]))
        if resumer:
            raise not_here(f"{name} can't be resumed here: {resumer}")

    async def extend(self, name: str, body: bytes) -> bytes:
        """Pause the idle rules for a workload, by an annotation of its Job."""
        from weir.api.field_errors import read_model  # with the messages of files, which reads don't need
        from weir.api.submissions import ExtensionAsked
        from weir.cli.cluster.body_errors import BodyErrors

        asked = read_model(ExtensionAsked, body, BodyErrors("The extension"))
        workload = await self.lookup.workload(name)
        owner = await self.lookup.owner(workload)
        until = datetime.fromtimestamp(time.time() + asked.duration, UTC)
        annotation = f"weir.dev/idle-extended-until={until:%Y-%m-%dT%H:%M:%SZ}"
        if not owner.is_job or workload.row is None:
            command = (
                f"kubectl annotate -n {workload.namespace} {owner.kind.lower()} {owner.name} {annotation}"
            )
            raise not_here(f"{workload.key} is made by a {owner.kind}, which takes an annotation: {command}")
        key, _, value = annotation.partition("=")
        path = path_of(JOBS, "jobs", workload.namespace, owner.name)
        change = {"metadata": {"annotations": {key: value}}}
        await self._api.patch(path, change, Patch.MERGE, ApiObject)
        activity = {**(workload.row.get("activity") or {}), "extended_until_s": until.timestamp()}
        return msgspec.json.encode({**workload.row, "activity": activity})

    # The cluster

    async def report(self, kind: str, params: Mapping[str, str]) -> bytes:
        """Return a report of the last hours: of all namespaces, or of the default one."""
        return await self._queries.everywhere(f"reports/{kind}", params)

    async def nodes(self) -> bytes:
        """Return the nodes."""
        return await self._queries.get("nodes")

    async def whoami(self) -> WhoAmI:
        """Return the person of the kubeconfig."""
        user = await user_of(self._api)
        if not user:
            raise not_here("the API server doesn't name your user (SelfSubjectReview): write --all-users")
        return WhoAmI(user=user, signed_in_by="kubeconfig", is_admin=False)

    async def status(self) -> bytes:
        """Return a summary of the cluster."""
        return await self._queries.get("pools/cluster")

    async def snapshot(self) -> str:
        """Return a scenario that replays the next decision."""
        answer = msgspec.json.decode(await self._queries.get("pools/cluster/snapshot"))
        return str(answer["scenario"])


def _encoded(answer: BaseModel) -> bytes:
    return answer.model_dump_json().encode()


def _just_queued(workload: LookupResult, owner: "QueuedOwner | None" = None) -> WorkloadDetail:
    from weir.cli.cluster.queued_row import just_queued  # few commands need it

    return just_queued(workload, owner)
