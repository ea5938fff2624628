"""Weir installed as in production: its manifests applied, its account's rights, its webhooks called.

    with ControlPlane() as plane, Installed(plane) as weir:
        ...

The Deployment has no replicas, because no pod runs here for real: a process with the arguments of its
container runs instead. The API server reaches the webhooks on loopback. WEIR_INSTALL=bundle installs it
from the OLM bundle instead: what OLM creates, and the administrator's files.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.controlplane.api import ApiError, Object, collection
from tools.controlplane.enforcement import wait_for_policies, wait_for_rights, wait_for_webhooks
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port
from tools.controlplane.queries import on_loopback, wait_for_queries, withdraw
from tools.controlplane.weir import Weir, install_kinds, project

_CONFIGURED_S = 120.0
_LOOK_AGAIN_S = 15.0
_REVIEW_S = 30
"""Patience of the API server with a webhook, the most there is: it does without a late answer."""
_SOURCES = ("manifests", "bundle")


class Installed(Weir):
    """An installation of `weir kube manifests` or of the OLM bundle, and its first instance as a process.

    Args:
        plane: the control plane.
        namespace: where Weir is installed; it needn't exist.
        webhooks: whether the API server calls them.
        name: of the process and of its log.
        kubeconfig: to use instead of one of the account, such as that of a proxy in front of it.
        extra: arguments beside those of the manifests.
        aloud: whether the log goes to the terminal.
        source: `manifests` or `bundle`; by default that of WEIR_INSTALL.
        options: of the installation, as `Installation` takes them.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        namespace: str = "weir-system",
        name: str = "weir",
        webhooks: bool = True,
        kubeconfig: Path | None = None,
        extra: Sequence[str] = (),
        aloud: bool = False,
        source: str = "",
        **options: Any,
    ) -> None:
        self._source = source or os.environ.get("WEIR_INSTALL") or _SOURCES[0]
        if self._source not in _SOURCES:
            raise ValueError(f"WEIR_INSTALL is {self._source}; it can be {' or '.join(_SOURCES)}")
        self.namespace = namespace
        self.port = free_port()
        self._webhooks = webhooks
        self._options = options
        self._apply(plane)
        self._is_enforced = False
        account = kubeconfig or plane.kubeconfig_of(namespace, "weir")
        super().__init__(plane, account, name=name, aloud=aloud)
        self._extra = list(extra)

    def command(self) -> list[str]:
        """Return the command of the container, with a port of this machine."""
        words = list(self._container["args"])
        words[words.index("--port") + 1] = str(self.port)
        own = ["--host", "127.0.0.1", "--namespace", self.namespace, *self._extra]
        return [*super().command()[:3], *words, *own]

    def start(self) -> None:
        """Run it, and return when the API server enforces its policies."""
        super().start()
        if not self._is_enforced:
            self._plane.api.apply(*self._when_it_runs)  # at once: Weir looks for them each half minute
            wait_for_policies(self._plane.api)  # while it starts
            self._is_enforced = True

    def wait_ready(self) -> None:
        """Wait until the API server calls the webhooks and forwards queries.

        Raises:
            TimeoutError: it doesn't after a while.
        """
        assert self._webhooks, "without webhooks nothing is called"
        end = time.monotonic() + _CONFIGURED_S
        while not self._is_called():
            self.check()
            if time.monotonic() > end:
                raise TimeoutError(f"no webhook is called after {_CONFIGURED_S:g} s; see {self.log}")
            time.sleep(0.05)
        wait_for_webhooks(self._plane.api)  # the mutating ones as well
        wait_for_queries(self._plane.api)

    def create_queues(self, *queues: Object) -> None:
        """Create departments and projects, and wait after each until the webhooks know it.

        Raises:
            TimeoutError: they don't after a while.
        """
        for queue in queues:
            self._plane.api.create(queue)
            kind = "Department" if queue["kind"] == "Project" else "Project"
            namesake = {**queue, "kind": kind, "spec": {}}
            end = time.monotonic() + _CONFIGURED_S
            while "already" not in self._refusal(namesake):
                self.check()
                if time.monotonic() > end:
                    raise TimeoutError(f"the webhooks don't know {queue['metadata']['name']}; see {self.log}")
                time.sleep(0.03)

    def _is_called(self) -> bool:
        """Return True if a webhook refuses a project whose department doesn't exist."""
        return bool(self._refusal(project("probe", 0, department="none")))

    def _refusal(self, queue: Object) -> str:
        """Return what a webhook says of a queue that would be created; empty if it passes."""
        try:
            self._plane.api.post(f"{collection(queue)}?dryRun=All", queue)
        except ApiError as why:
            return why.message if "admission webhook" in why.message else ""
        return ""

    def objects(self) -> list[Object]:
        """Return the objects, without pods, and with webhooks that are reached on loopback, however late."""
        from tools.controlplane.olm import bundle_objects

        from weir.kubernetes.install.manifests import Installation, manifests

        read = bundle_objects if self._source == "bundle" else manifests
        read_objects = []
        for manifest in read(Installation(self.namespace, **self._options)):
            if "WebhookConfiguration" in manifest["kind"]:
                if not self._webhooks:
                    continue
                for hook in manifest["webhooks"]:
                    hook["clientConfig"] = {"url": f"https://127.0.0.1:{self.port}"}
                    hook["timeoutSeconds"] = _REVIEW_S
            elif manifest["kind"] == "Deployment":
                manifest["spec"]["replicas"] = 0
            read_objects.append(manifest)
        return on_loopback(read_objects, self.port)

    def _apply(self, plane: ControlPlane) -> None:
        install_kinds(plane.api)
        self._wait_for_namespace(plane)
        objects = [manifest for manifest in self.objects() if manifest["kind"] != "CustomResourceDefinition"]
        late = "APIService" if self._source == "bundle" else ""
        self._when_it_runs = [manifest for manifest in objects if manifest["kind"] == late]
        plane.api.apply(*(manifest for manifest in objects if manifest not in self._when_it_runs))
        wait_for_rights(plane.api)
        (deployment,) = (manifest for manifest in objects if manifest["kind"] == "Deployment")
        (self._container,) = deployment["spec"]["template"]["spec"]["containers"]

    def _wait_for_namespace(self, plane: ControlPlane) -> None:
        """Wait until a namespace of that name that is being deleted is gone.

        A change of the namespace makes its controller look again: by itself it waits a minute after failures.
        It fails as long as discovery names an API without a server.

        Raises:
            TimeoutError: it isn't after a while; the text has its conditions.
        """
        path = f"/api/v1/namespaces/{self.namespace}"
        begun = changed = time.monotonic()
        while (namespace := plane.api.maybe(path)) is not None:
            now = time.monotonic()
            if namespace["status"]["phase"] != "Terminating":
                return
            if now > begun + 2 * _CONFIGURED_S:
                raise TimeoutError(f"namespace {self.namespace} isn't gone: {namespace['status']}")
            if now > changed + _LOOK_AGAIN_S:
                withdraw(plane.api)
                changed = time.monotonic()
                with suppress(ApiError):  # it is gone
                    plane.api.patch(path, {"metadata": {"annotations": {"looked-again": f"{changed:g}"}}})
            time.sleep(0.2)
