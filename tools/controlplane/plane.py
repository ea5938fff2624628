"""A control plane of real programs on loopback: etcd, API server, controllers and KWOK, up in some seconds.

    with ControlPlane() as plane:
        add_nodes(plane.api, nodes(4, gpus=8))
        plane.kubectl("get", "nodes")

RBAC is on; the API server's limits on requests are its defaults. Different from a cluster are: etcd
doesn't wait for the disk, controllers create objects at up to 1,000 a second (not 20) so that it isn't
them who are measured, and a node isn't expected to show signs of life: nodes become ready and unready
because a test sets the condition (see nodes.py).
"""

import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.controlplane.api import Api, ApiError
from tools.controlplane.binaries import Binaries, find
from tools.controlplane.certificates import Authority, Pair, service_account_keys
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.nodes import STAGES
from tools.controlplane.ports import free_port
from tools.controlplane.processes import Ended, Processes
from tools.prefork import Process

READY_S = 120.0
ALL_RIGHTS = "all-for-"
"""Beginning of the names of bindings that let a user of the plane do everything."""
_UNUSED_CONTROLLERS = (
    *("certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller"),
    "certificatesigningrequest-signing-controller",
    *("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"),
    *("horizontal-pod-autoscaler-controller", "legacy-serviceaccount-token-cleaner-controller"),
    *("node-ipam-controller", "persistentvolume-attach-detach-controller"),
    *("persistentvolume-expander-controller", "service-cidr-controller"),
    *("storage-version-migrator-controller", "storageversion-garbage-collector-controller"),
    "ttl-controller",
)
"""Controllers that no test needs. Each would watch the API server."""
_CLOUD_CONTROLLERS = ("cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller")
"""The same, in releases before 1.37."""
_VOLUME_CONTROLLERS = ("volumeattributesclass-protection-controller",)
"""The same, in releases after 1.31."""
_GROUPS = {"admin": "system:masters", "weir": ""}
"""Users who come with a token. It is looked up, where a certificate is verified for each request."""
_TRIES = 3
_CONTROLLERS_PER_S = 1000


def _unused_controllers(release: str) -> tuple[str, ...]:
    """Return the controllers of a release that no test needs."""
    return (
        *_UNUSED_CONTROLLERS,
        *(_CLOUD_CONTROLLERS if release < "1.37" else ()),
        *(_VOLUME_CONTROLLERS if release > "1.31" else ()),
    )


class ControlPlane:
    """Control plane in a temporary directory, from `start` to `stop`."""

    def __init__(
        self,
        binaries: Binaries | None = None,
        *,
        features: Sequence[str] = (),
        alpha_apis: Sequence[str] = (),
        controllers: Sequence[str] = (),
        server_options: Sequence[str] = (),
        controller_options: Sequence[str] = (),
    ) -> None:
        """`features` and `alpha_apis` are on, and `controllers` run, besides the usual ones.

        `server_options` are further ones of the API server, `controller_options` of the controller manager.
        """
        self.binaries = binaries or find()
        gates = [f"--feature-gates={','.join(f'{feature}=true' for feature in features)}"] if features else []
        apis = [f"--runtime-config={','.join(f'{api}=true' for api in alpha_apis)}"] if alpha_apis else []
        self._server_options = [*gates, *apis, *server_options]
        self._controller_options = [*gates, *controller_options]
        self._scheduler_options = gates
        self._unused_controllers = [
            name for name in _unused_controllers(self.binaries.release) if name not in controllers
        ]
        self.directory = Path()
        self.url = ""
        self.etcd = ""
        self.kubeconfig = Path()
        self._admin: Pair
        self._authority: Authority
        self.front_proxy: Authority  # signs the certificate with which the API server forwards requests
        self._api: Api | None = None
        self._commands: dict[str, list[str]] = {}
        self._processes: Processes
        self._tokens = {user: secrets.token_hex(16) for user in _GROUPS}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        self.stop()

    # Life

    def start(self) -> None:
        """Come up, until it takes requests, pods can be made and nodes become ready.

        Raises:
            Ended: one of its programs didn't stay up; its last words are in the sentence.
            TimeoutError: it wasn't ready in time.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._start()
            except Ended as why:
                self.stop()
                if left == 0 or "address already in use" not in why.message:
                    raise  # another process may take a free port first; no other fault gets better
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """End everything and remove the directory."""
        if self._api is not None:
            self._api.close()
            self._api = None
        self._processes.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="weir-plane-"))
        self._processes = Processes(self.directory)
        self._authority = Authority(self.directory / "pki")
        self._admin = self._authority.client("admin", ["system:masters"])
        self.url = f"https://127.0.0.1:{free_port()}"
        self.kubeconfig = self.kubeconfig_for("admin")
        self._commands = self._programs()
        for name in ("etcd", "kube-apiserver"):
            self._run(name)
        self._api = Api(self.url, self._authority.certificate, self._tokens["admin"])
        self._until(self._serves, "the API server to take requests")
        for name in ("kube-controller-manager", "kwok"):
            self._run(name)
        self._until(self._makes_pods, "the controllers to work")
        self._until(self._has_roles, "the roles of people to be complete")

    def _programs(self) -> dict[str, list[str]]:
        pki = self.directory / "pki"
        server, tokens = self._authority.server(), service_account_keys(pki)
        authority, port = str(self._authority.certificate), self.url.rpartition(":")[2]
        self.front_proxy = Authority(pki / "front-proxy")
        forwards = self.front_proxy.client("front-proxy-client")
        etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.etcd = etcd
        return {
            "etcd": [
                *("--data-dir", str(self.directory / "etcd"), "--unsafe-no-fsync", "--log-level=warn"),
                *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
                *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                *("--initial-cluster", f"default={peers}", "--quota-backend-bytes=4294967296"),
            ],
            "kube-apiserver": [
                *(f"--etcd-servers={etcd}", f"--secure-port={port}", "--bind-address=127.0.0.1"),
                *("--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"),
                *("--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC"),
                *(f"--client-ca-file={authority}", f"--tls-cert-file={server.certificate}"),
                *(f"--tls-private-key-file={server.key}", f"--cert-dir={pki}", "--profiling=false"),
                *("--service-account-issuer=https://kubernetes.default.svc", "--allow-privileged"),
                *("--delete-collection-workers=16", f"--token-auth-file={self._write_tokens()}"),
                *(f"--service-account-key-file={tokens.certificate}",),
                *(f"--service-account-signing-key-file={tokens.key}", *self._server_options),
                *(f"--requestheader-client-ca-file={self.front_proxy.certificate}",),
                *("--requestheader-allowed-names=front-proxy-client",),
                *("--requestheader-username-headers=X-Remote-User",),
                *("--requestheader-group-headers=X-Remote-Group",),
                *("--requestheader-extra-headers-prefix=X-Remote-Extra-",),
                *(f"--proxy-client-cert-file={forwards.certificate}",),
                *(f"--proxy-client-key-file={forwards.key}",),
            ],
            "kube-controller-manager": [
                *(f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"),
                *(f"--service-account-private-key-file={tokens.key}", f"--root-ca-file={authority}"),
                *(f"--kube-api-qps={_CONTROLLERS_PER_S}", f"--kube-api-burst={2 * _CONTROLLERS_PER_S}"),
                *("--concurrent-job-syncs=20", "--node-monitor-grace-period=24h", "--profiling=false"),
                "--controllers=" + ",".join(["*", *(f"-{name}" for name in self._unused_controllers)]),
                *self._controller_options,
            ],
            "kwok": [
                *(f"--kubeconfig={self.kubeconfig}", f"--config={STAGES}"),
                *("--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--v=ERROR"),
                *("--node-lease-duration-seconds=0",),
            ],
            "kube-scheduler": [
                *("--leader-elect=false", "--secure-port=0", f"--kubeconfig={self.kubeconfig}"),
                *("--kube-api-qps=10000", "--kube-api-burst=10000", *self._scheduler_options),
            ],
        }

    def _run(self, name: str) -> None:
        self._processes.start(name, [self.binaries[name], *self._commands[name]])

    # What there is to ask

    @property
    def api(self) -> Api:
        """The API as its administrator sees it."""
        assert self._api is not None, "start it first"
        return self._api

    @property
    def authority(self) -> Authority:
        """Return the authority that signs certificates of this control plane, for the fronts of proxies."""
        return self._authority

    @property
    def admin(self) -> Pair:
        """The administrator's certificate and key."""
        return self._admin

    def kubectl(self, *words: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl, and return its output.

        Raises:
            RuntimeError: it failed; what it said is in the sentence.
        """
        done = subprocess.run(
            [self.binaries["kubectl"], *words],
            env={**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig), "HOME": str(self.directory)},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), url: str | None = None) -> Path:
        """Write a kubeconfig of a user, with another URL if there is a proxy in between."""
        token = None if groups else self._tokens.get(user)
        return self._write_kubeconfig(user, url or self.url, token or self._authority.client(user, groups))

    def kubeconfig_of(self, namespace: str, account: str, url: str | None = None, hours: int = 24) -> Path:
        """Write a kubeconfig of a service account, by token."""
        asked = {"spec": {"expirationSeconds": hours * 3600}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        token = self.api.post(path, asked)["status"]["token"]
        return self._write_kubeconfig(f"{namespace}:{account}", url or self.url, str(token))

    def grant_all(self, user: str) -> None:
        """Let this user do everything; unlike the administrator it is not exempt from queueing."""
        group = "rbac.authorization.k8s.io"
        self.api.apply(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{ALL_RIGHTS}{user}"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            }
        )
        wait_for_rights(self.api)

    def log(self, name: str) -> Path:
        """Return the path of a program's log."""
        return self._processes.log(name)

    def pid(self, name: str) -> int:
        """Return the process id of a running program."""
        return self._processes.running[name].pid

    # What can happen to it

    def start_scheduler(self) -> None:
        """Run the stock kube-scheduler as well."""
        self._run("kube-scheduler")

    def kill(self, name: str) -> None:
        """End one of its programs the hard way."""
        self._processes.stop(name, signal.SIGKILL)

    def restart(self, name: str) -> None:
        """Stop a program and start it again at its address."""
        self._processes.stop(name)
        self._run(name)
        self._until(self._serves, f"{name} to be back")

    def check(self) -> None:
        """Raise `Ended` if one of the programs has ended by itself."""
        self._processes.check()

    def run_beside(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        aloud: bool = False,
        is_weir: bool = True,
    ) -> Process:
        """Run a program, with its log here or aloud; it ends with the control plane at the latest."""
        return self._processes.start(name, command, environment, aloud=aloud, is_weir=is_weir)

    def stop_beside(self, name: str, how: signal.Signals, within_s: float) -> None:
        """End it again; by force after so long."""
        self._processes.stop(name, how, within_s)

    # Getting ready

    def _until(self, true: Callable[[], bool], subject: str) -> None:
        end = time.monotonic() + READY_S
        while not true():
            self._processes.check()
            if time.monotonic() > end:
                raise TimeoutError(f"waited {READY_S:.0f} s for {subject}; see the logs in {self.directory}")
            time.sleep(0.05)

    def _serves(self) -> bool:
        try:
            return self.api.text("/readyz") == "ok"
        except (OSError, ApiError):
            return False

    def _makes_pods(self) -> bool:
        return self.api.maybe("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _has_roles(self) -> bool:
        """Return True if a controller has put these roles together, of which each contains the one before."""
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        names = ("view", "edit", "admin")
        view, edit, admin = (self.api.get(f"{roles}/{name}").get("rules") or [] for name in names)
        return bool(view) and all(rule in edit for rule in view) and all(rule in admin for rule in edit)

    def _write_tokens(self) -> Path:
        """Write the file that says which token makes its bearer which user of which group."""
        path = self.directory / "tokens.csv"
        path.touch(mode=0o600)
        lines = [f"{self._tokens[user]},{user},{user},{group}\n" for user, group in _GROUPS.items()]
        path.write_text("".join(lines))
        return path

    def _write_kubeconfig(self, name: str, url: str, bearer: Pair | str) -> Path:
        user: dict[str, str] = _credentials(bearer) if isinstance(bearer, Pair) else {"token": bearer}
        cluster = {"server": url}
        if url.startswith("https:"):
            cluster["certificate-authority-data"] = _inline(self._authority.certificate)
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": name}}],
            "current-context": "plane",
        }
        safe = name.replace(":", "-").replace("/", "-")
        port = url.rstrip("/").rpartition(":")[2]
        path = self.directory / f"{safe}-{port}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(written, indent=1))
        return path


def _credentials(pair: Pair) -> dict[str, str]:
    return {"client-certificate-data": _inline(pair.certificate), "client-key-data": _inline(pair.key)}


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
