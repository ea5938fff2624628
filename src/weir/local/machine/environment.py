"""Environment of a pod's process.

The submitted variables override those for frameworks. Nothing overrides the variables for devices and for
the pod's identity.
"""

import os
import pwd
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weir.model.workloads import WHOLE_MILLI

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("CUDA_HOME", "CUDA_PATH", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""Variables inherited from the pool's own environment, with all that begin with LC_."""
_OF_ONE_USER = frozenset(("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR"))
LAST_CALL_S = 5
"""Time for which `torchrun` waits for further pods once the minimum number has joined."""
ELASTIC_RESTARTS_MAX = 1000
"""Limit of restarts of `torchrun`'s workers: each pod that leaves counts as one."""
ELASTIC = "WEIR_ELASTIC"
"""Variable with the minimum and the maximum of pods, such as `2:4`, if they differ."""
PORTS = range(20_000, 30_000)
"""Ports at which launchers of gangs meet, below those that the kernel gives to outgoing connections."""


@dataclass(frozen=True, slots=True)
class GangRank:
    """A pod's place in its gang: launchers treat each pod as a node."""

    rank: int = 0
    world: int = 1
    port: int = 0


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """The devices that a pod sees: their names for drivers, its part of each, and this part in bytes."""

    devices: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    share_milli: int = WHOLE_MILLI
    memory: int = 0


def environment(
    inherited: Mapping[str, str],
    written: Collection[tuple[str, str]],
    identity: Mapping[str, str],
    gang_rank: GangRank,
    sight: VisibleDevices,
) -> dict[str, str]:
    """Return the complete environment of a pod's process. `identity` names the pod and its places."""
    kept = {name: value for name, value in inherited.items() if name in INHERITED or name.startswith("LC_")}
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    kept["PYTHONUNBUFFERED"] = "1"  # unbuffered, for `weir logs -f`
    launchers = _gang(gang_rank) | _elastic(identity, gang_rank, sight)
    return kept | launchers | _shares(sight) | dict(written) | dict(identity) | _devices(sight)


def user_environment(user: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a login of a user would set, and those of the machine that all have."""
    shared = {name: value for name, value in inherited.items() if name not in _OF_ONE_USER}
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return shared  # the node process refuses to start a pod as this user
    own = {"HOME": account.pw_dir, "USER": user, "LOGNAME": user, "SHELL": account.pw_shell or "/bin/sh"}
    return {**shared, **own}


def _gang(gang_rank: GangRank) -> dict[str, str]:
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(gang_rank.port),
        "RANK": str(gang_rank.rank),
        "NODE_RANK": str(gang_rank.rank),
        "WORLD_SIZE": str(gang_rank.world),
        "LOCAL_RANK": "0",  # each pod sees its own devices only, counted from 0
        "LOCAL_WORLD_SIZE": "1",
    }


def _elastic(identity: Mapping[str, str], gang_rank: GangRank, sight: VisibleDevices) -> dict[str, str]:
    """Return the variables by which `torchrun` finds the other pods, and adapts when pods join or leave.

    The first rank holds the store of the rendezvous. Elastic pods, which are stopped first, have higher
    ranks.
    """
    if ELASTIC not in identity:
        return {}
    return {
        "PET_NNODES": identity[ELASTIC],
        "PET_NPROC_PER_NODE": str(max(1, len(sight.devices))),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"127.0.0.1:{gang_rank.port}",
        "PET_RDZV_ID": identity["WEIR_POD_ID"].partition("/")[0],
        "PET_RDZV_CONF": f"is_host={int(gang_rank.rank == 0)},last_call_timeout={LAST_CALL_S}",
        "PET_MAX_RESTARTS": str(ELASTIC_RESTARTS_MAX),
        # With a shared store, the first rank gives later pods no address, and all fail.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def _shares(sight: VisibleDevices) -> dict[str, str]:
    """Return the variables that make frameworks use only a part of a device."""
    if not sight.devices or sight.share_milli >= WHOLE_MILLI:
        return {}
    fraction = f"{sight.share_milli / WHOLE_MILLI:.3f}"
    return {
        "XLA_PYTHON_CLIENT_MEM_FRACTION": fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        # In bytes: a percentage would be of the share that the driver may report
        "CUPY_GPU_MEMORY_LIMIT": str(sight.memory),
    }


def _devices(sight: VisibleDevices) -> dict[str, str]:
    seen = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(sight.names),
        "WEIR_DEVICES": ",".join(map(str, sight.devices)),
    }
    if sight.devices:
        seen["WEIR_GPU_FRACTION"] = f"{min(sight.share_milli, WHOLE_MILLI) / WHOLE_MILLI:.3f}"
        seen["WEIR_GPU_MEMORY"] = str(sight.memory)
    return seen


class PortPool:
    """Ports at which gangs meet. A port is free when it is handed out, and used by one gang at a time."""

    def __init__(self, ports: range = PORTS) -> None:
        self._ports = ports
        self._next = os.getpid() * 97 % len(ports)  # another pool on this machine starts at another port
        self.used: set[int] = set()

    def take(self) -> int:
        """Return a port that no process listens on; 0 if there is none."""
        for _ in range(len(self._ports)):
            port = self._ports[self._next]
            self._next = (self._next + 1) % len(self._ports)
            if port not in self.used and _is_free(port):
                self.used.add(port)
                return port
        return 0

    def give_back(self, port: int) -> None:
        """Return the port of a gang that is over."""
        self.used.discard(port)


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True
