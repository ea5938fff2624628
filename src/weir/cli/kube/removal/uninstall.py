"""Removal of an installation with an administrator's rights, also of an earlier one or of a part of one."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from weir.cli.cluster.installation import InstallationView, read_installation
from weir.cli.cluster.releasing import release_queues
from weir.cli.kube.removal.objects import (
    API_SERVICES,
    COMPONENT_LABEL,
    COMPONENTS,
    KINDS,
    OBJECTS,
    PROGRAMS,
    InstalledKind,
    InstalledObject,
    home_of,
)
from weir.cli.kube.removal.traces import free_nodes, pending_pods, suspended_owners
from weir.cli.options.mistakes import CommandError
from weir.client.errors import Refused
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.credentials import Credentials
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.objects import ApiObject
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION

PODS_END_S = 60.0
"""Time that Weir's own pods have to end. Afterwards they are without rights."""
_LOOK_S = 0.5
_HELM = "meta.helm.sh/release-name"
_OLM = "olm.owner"


@dataclass(slots=True)
class Removal:
    """Parts of a removal. `dry_run` changes nothing; `delete_kinds` deletes Weir's kinds with all objects."""

    namespace: str
    dry_run: bool
    delete_kinds: bool
    tell: Callable[[str], None]
    kept: list[str] = field(default_factory=list)
    """Sentences about everything that stays."""


async def uninstall(access: Credentials, removal: Removal) -> None:
    """Remove an installation.

    Raises:
        ApiError: the API server refuses a request, or can't be reached.
        CommandError: another program has installed it, or it is in another namespace.
    """
    async with ApiClient(access) as api:
        home = await home_of(api)
        if home not in ("", removal.namespace):
            raise CommandError(f"Weir is installed in the namespace {home}: add --namespace {home}", 2)
        await _refuse_managed(api, removal.namespace)
        scheduler = await _scheduler(api, removal.namespace)
        await _delete(api, removal, API_SERVICES)
        for kind in PROGRAMS:
            await _delete(api, removal, kind)
        if not removal.dry_run:
            await _wait_for_pods(api, removal.namespace)
        for kind in OBJECTS:
            await _delete(api, removal, kind)
        async for is_free, sentence in free_nodes(api, dry_run=removal.dry_run):
            _told(removal, sentence) if is_free else removal.kept.append(sentence)
        if not removal.dry_run:
            for name in await release_queues(access):
                removal.tell(f"{name} released")
        await _kinds(api, removal)
        if pending := await pending_pods(api, scheduler):
            removal.kept.append(f"{pending[:1].upper()}{pending[1:]}")
        removal.kept += await suspended_owners(api)


async def _scheduler(api: ApiClient, namespace: str) -> str:
    """Return the scheduler's name; the default one if the settings have a mistake."""
    try:
        return (await read_installation(api, namespace)).scheduler
    except Refused:
        return InstallationView().scheduler


async def _refuse_managed(api: ApiClient, namespace: str) -> None:
    """Refuse to remove an installation by Helm or OLM, which would create it again.

    Raises:
        CommandError: one of them has installed Weir.
    """
    try:
        programs = await api.list_all(path_of("apps/v1", "deployments", namespace), InstalledObject)
    except NotFound:
        return
    for program in programs:
        metadata = program.metadata
        if metadata.labels.get(COMPONENT_LABEL) not in COMPONENTS and metadata.name not in COMPONENTS:
            continue
        if release := metadata.annotations.get(_HELM):
            command = f"helm uninstall {release} -n {namespace}"
            raise CommandError(
                f"Helm has installed Weir: run `{command}` first, and then this command again", 2
            )
        if _OLM in metadata.labels:
            version = metadata.labels[_OLM]
            raise CommandError(
                f"OLM has installed Weir: delete its Subscription and the ClusterServiceVersion {version} in "
                f"{namespace} first, and run this command again",
                2,
            )


async def _delete(api: ApiClient, removal: Removal, kind: InstalledKind) -> None:
    for path in await kind.objects(api, removal.namespace):
        if not removal.dry_run:
            try:
                await api.delete(path, propagation="Background")
            except NotFound:
                continue
        _told(removal, _short(path))


def _told(removal: Removal, removed: str) -> None:
    removal.tell(f"{removed} {'would be removed' if removal.dry_run else 'removed'}")


def _short(path: str) -> str:
    """Return kind and name of an object, with its namespace."""
    plural, name = path.split("/")[-2:]
    _, _, rest = path.partition("/namespaces/")
    return f"{plural}/{name}" + (f" of {rest.partition('/')[0]}" if rest else "")


async def _wait_for_pods(api: ApiClient, namespace: str) -> None:
    """Wait until Weir's pods are gone, for a while: one on a dead node stays."""
    selector = f"{COMPONENT_LABEL} in ({','.join(COMPONENTS)})"
    end_s = time.monotonic() + PODS_END_S
    while time.monotonic() < end_s:
        path = path_of("v1", "pods", namespace)
        try:
            if not await api.list_all(path, ApiObject, label_selector=selector):
                return
        except NotFound:
            return
        await asyncio.sleep(_LOOK_S)


async def _kinds(api: ApiClient, removal: Removal) -> None:
    """Delete Weir's kinds, or say which objects they keep."""
    paths = await KINDS.objects(api, removal.namespace)
    counts: list[str] = []
    for path in paths:
        plural = path.rpartition("/")[2].partition(".")[0]
        try:
            number = len(await api.list_all(path_of(API_VERSION, plural), ApiObject))
        except NotFound:
            number = 0
        if number:
            counts.append(f"{number} {plural}")
    objects = f" with {', '.join(counts)}" if counts else ""
    if not removal.delete_kinds:
        if paths:
            removal.kept.append(
                f"{len(paths)} kinds of weir.dev{objects}. `weir kube uninstall --delete-kinds` deletes them."
            )
        return
    await _delete(api, removal, KINDS)
    if objects:
        removal.tell(f"The kinds{' would be' if removal.dry_run else ' are'} deleted{objects}")
