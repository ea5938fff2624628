"""Entry into a workload of a cluster: found or queued, and then entered once its container runs."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from weir.cli.cluster.pod_containers import PodContainers
from weir.cli.cluster.session_job import KEEPS_RUNNING
from weir.cli.cluster.transport import ClusterTransport
from weir.cli.output.terminal import plain
from weir.cli.sessions.kubernetes.session_container import (
    awaited_start,
    job_pods,
    namespace_of,
    running_container,
    short_name,
)
from weir.cli.sessions.pod_entry import EntryRefused
from weir.cli.sessions.start import (
    ENDED,
    SessionOptions,
    default_name,
    find_workload,
    refuse_ended,
    say_once,
    say_reason,
    session_project,
    stopped_if_left,
    submit_session,
)
from weir.client.address import find
from weir.client.api import Pool
from weir.client.errors import PoolError
from weir.kubernetes.api.errors import ApiRefused

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.api.sessions import SessionKind
    from weir.kubernetes.api.container_address import ContainerAddress

_STOPPED = (137, 143)
"""Exit codes of commands that ended with their container."""
_LOOKS_RUNNING, _LOOKS_MAX, _LOOK_S = 3, 15, 0.4
"""Reads of a pod to learn if it ended, reads for the reason of an end, and the seconds between reads."""
_WATCH_S_MIN, _WATCH_S_MAX = 1.0, 5.0
"""Limits of the time for which pods of a pending workload are watched before its reason is read."""
_STREAMS = "weir.kubernetes.api.exec_stream"
"""Module that takes longer to import than a request."""
_NO_SHELL = "a session needs one; use an image of a distribution"


@dataclass(frozen=True, slots=True)
class ClusterPool:
    """A cluster as a pool, and its API server with the same credentials."""

    pool: Pool
    transport: ClusterTransport

    def default_name(self, kind: str) -> str:
        """Return the default name of a person's session, valid as the name of a Job."""
        return default_name(self.transport.user(), kind).replace(".", "-")[:53].strip("-")

    def check_right(self, namespace: str) -> None:
        """Check a right before the API server would refuse it later.

        Raises:
            EntryRefused: the person may not enter pods of a namespace.
        """
        if not self.transport.may("create", "pods", "exec", namespace):
            needed = "it needs the verb create on pods/exec there, which the ClusterRole edit has"
            raise EntryRefused(f"your account may not enter pods of {namespace}: {needed}")

    def session(
        self,
        name: str,
        options: SessionOptions,
        command: Sequence[str] = KEEPS_RUNNING,
        kind: "SessionKind | None" = None,
        missing: str = _NO_SHELL,
    ) -> "tuple[WorkloadDetail, ContainerAddress]":
        """Return a named workload and its container once it runs; queue it first if there is none.

        `missing` says how the image gets the program of the command.

        Raises:
            EntryRefused: the workload can't be queued or entered.
        """
        detail = self.existing(name, options.project)
        if detail is None:
            project = options.project or session_project(self.pool, name)
            self.check_right(self.transport.namespace_of(project))
            options = replace(options, project=project)
            made = submit_session(self.pool, name, options, command, kind)
            try:
                return self.entered(made, is_new=True, program=command[0], missing=missing)
            except EntryRefused:
                with suppress(PoolError):
                    self.pool.stop(made.name)
                raise
        self.check_right(namespace_of(detail.name))
        return self.entered(detail, is_new=False, program=command[0], missing=missing)

    def existing(self, name: str, project: str | None) -> "WorkloadDetail | None":
        """Return the workload of a name: in the namespace of the project, if one is named.

        Raises:
            EntryRefused: the workload has ended, and its Job still has the name.
        """
        detail = find_workload(self.pool, self.whole_name(name, project))
        if detail is not None and detail.status in ENDED:
            remove = f"`weir stop {detail.name}` removes it"
            raise EntryRefused(f"{detail.name} has ended, and its Job keeps the name: {remove}")
        return detail

    def whole_name(self, name: str, project: str | None = None) -> str:
        """Return a name with the namespace of the given project, or of $WEIR_PROJECT; else unchanged."""
        project = project or os.environ.get("WEIR_PROJECT")
        if "/" in name or not project:
            return name
        return f"{self.transport.namespace_of(project)}/{name}"

    def entered(
        self, detail: "WorkloadDetail", *, is_new: bool, program: str = "", missing: str = ""
    ) -> "tuple[WorkloadDetail, ContainerAddress]":
        """Wait until a workload runs; return it and its container.

        Raises:
            EntryRefused: the workload ended, or its container can't run.
        """
        Thread(target=import_module, args=(_STREAMS,), daemon=True).start()  # while the container starts
        previous, watch_s = "", _WATCH_S_MIN
        with stopped_if_left(self.pool, detail, is_new=is_new):
            while True:
                refuse_ended(detail)
                address = running_container(self.transport, detail)
                if address is None:
                    if watch_s > _WATCH_S_MIN:
                        previous = say_reason(detail, previous)
                    address, awaited = self._started(detail, program, missing, watch_s)
                    waits = f"{short_name(detail.name)} is placed, and its container waits: {awaited}"
                    previous = say_once(waits, previous) if awaited else previous
                if address is not None:
                    return detail, address
                watch_s = min(_WATCH_S_MAX, watch_s + _WATCH_S_MIN)
                detail = self.pool.get(detail.name)

    def _started(
        self, detail: "WorkloadDetail", program: str, missing: str, within_s: float
    ) -> "tuple[ContainerAddress | None, str]":
        """Return the container of a workload if it starts in time, else the reason for the wait.

        The container is read from the API server, which knows it earlier than Weir.

        Raises:
            EntryRefused: the container can't run.
        """
        pods = job_pods(detail)
        if pods is None:
            time.sleep(within_s)
            return None, ""
        awaited: dict[str, str] = {}

        def seen(pod: PodContainers) -> "ContainerAddress | None":
            awaited[pod.metadata.name] = awaited_start(pod, program, missing)
            return pod.entered

        path, selector = pods
        try:
            address = self.transport.first(
                path, PodContainers, seen, label_selector=selector, within_s=within_s
            )
        except ApiRefused as error:
            if error.status != 403:  # the right to watch is optional, and saves time only
                raise
            time.sleep(within_s)
            return None, ""
        return address, next(filter(None, awaited.values()), "")

    def why_over(self, detail: "WorkloadDetail", address: "ContainerAddress", code: int | None) -> str:
        """Return the reason why the entered pod of a session is over; empty if it still runs.

        `code`: the exit code of the entered command, None if the stream broke off. The stream may end before
        Weir knows of the pod's end.
        """
        if code is not None and code not in _STOPPED:
            return ""
        name, is_over = short_name(detail.name), False
        for look in range(_LOOKS_MAX):
            try:
                now = self.pool.get(detail.name)
            except PoolError:
                return f"{name} is over"
            last, pod = now.evicted, _row_status(now, address.pod)
            if last is not None and (detail.evicted is None or last.at_s > detail.evicted.at_s):
                return f"{name} left its GPUs: {plain(last.sentence)}".rstrip(".")
            is_over = pod != "running"
            is_explained = now.status in ENDED or now.reason is not None
            if is_over and is_explained and now.status != "running":
                why = "" if now.reason is None else f": {plain(now.reason.sentence)}"
                return f"{name} is {now.status}{why}".rstrip(".")
            if not is_over and look >= _LOOKS_RUNNING:
                break
            time.sleep(_LOOK_S)
        return f"the pod of {name} is over" if is_over else ""


def _row_status(detail: "WorkloadDetail", pod: str) -> str:
    rows = {row.name.rpartition("/")[2]: row.status for row in detail.pod_rows}
    return rows.get(pod, "")


@contextmanager
def cluster_pool(namespace: str | None = None) -> Iterator[ClusterPool]:
    """Yield the cluster that the environment names."""
    address = find()
    transport = ClusterTransport(address.context, namespace=namespace)
    with Pool(address.url, transport=transport) as pool:
        try:
            yield ClusterPool(pool, transport)
        except ApiRefused as error:
            raise EntryRefused(f"the API server refused the entry: {error.message}".rstrip(".")) from None
