"""Podman as the runtime of a pod's container.

Each start has a storage of its own in the pod's directory; images come from the user's store, which the
start only reads. So starts share no state: a killed one leaves nothing that another could trip over.
"""

import os
import pwd
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from weir.local.containers import images, leftovers
from weir.local.containers.launch import PATH
from weir.local.containers.user_namespace import RUN

_CONF = f"""[containers]
log_driver = "passthrough"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "crun"
[network]
network_config_dir = "{RUN}/networks"
"""
"""Settings of Podman. At each start it makes a directory for networks, by default in `~/.config`."""
INIT_PROGRAMS = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit")
"""Programs that pass signals on: a first process without handlers never gets SIGTERM."""
_QUEUES = "/dev/mqueue"
"""Message queues of the machine, which containers share. Without them, a container gets an empty folder."""
_LOGINS = (
    "/run/user/{uid}/containers/auth.json",
    "{home}/.config/containers/auth.json",
    "{home}/.docker/config.json",
)
_OF_THE_IMAGE = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
"""Directories that a container has of its image."""


class ContainerRefused(Exception):
    """The container can't be started; the text says why."""


class ContainerStart(NamedTuple):
    """Container to start."""

    image: str
    pull: str
    command: tuple[str, ...]
    directory: str
    shared: tuple[str, ...]
    devices: tuple[str, ...]
    passed: tuple[str, ...]  # environment variables to pass from this process
    written: dict[str, str]  # further environment variables
    problem: str

    @classmethod
    def of(cls, spec: dict[str, Any], command: Sequence[str]) -> "ContainerStart":
        """Return the container of a spec."""
        shared, devices, passed = (tuple(map(str, spec[name])) for name in ("shared", "devices", "pass"))
        return cls(
            image=str(spec["image"]),
            pull=str(spec["pull"]),
            command=tuple(command),
            directory=str(spec["directory"]),
            shared=shared,
            devices=devices,
            passed=passed,
            written={str(name): str(value) for name, value in spec["set"].items()},
            problem=str(spec["problem"]),
        )


def become(container: ContainerStart) -> NoReturn:
    """Pull the image, and become Podman in this namespace.

    Raises:
        ContainerRefused, ImageNotAvailable: it can't be started.
        OSError: a directory can't be made, or the program can't be run.
    """
    program = shutil.which("podman", path=PATH)
    if program is None:
        raise ContainerRefused("podman isn't installed on this machine")
    own = os.environ["WEIR_POD_DIRECTORY"]
    leftovers.remove_earlier(own)
    account = pwd.getpwuid(_outer("uid_map", os.getuid()))
    place = f"{own}/{leftovers.DIRECTORY}"
    for path in (place, f"{place}/storage", f"{RUN}/run", f"{RUN}/libpod"):
        os.makedirs(path, 0o700, exist_ok=True)
    store = f"{account.pw_dir}/{images.STORE}"
    os.makedirs(f"{store}/storage", 0o700, exist_ok=True)
    _write(f"{place}/containers.conf", _CONF)
    os.environ.update(_own_variables(account, place))
    name = images.ensure(
        [program, *_storage(f"{store}/storage")],
        container.image,
        container.pull,
        store,
    )
    os.execv(  # noqa: S606 - no shell, and every value has its place
        program,
        [
            program,
            *_storage(f"{place}/storage", f"{store}/storage"),
            "run",
            *_options(container, place),
            name,
            *container.command,
        ],
    )


def _storage(root: str, images_from: str = "") -> list[str]:
    """Return the options for a storage, and for a store of images that is only read."""
    options = ["overlay.ignore_chown_errors=true"]
    if images_from:
        options.append(f"additionalimagestore={images_from}")
    return [
        *("--root", root, "--runroot", f"{RUN}/run", "--tmpdir", f"{RUN}/libpod"),
        *("--storage-driver", "overlay", "--log-level", "error"),
        *(word for option in options for word in ("--storage-opt", option)),
    ]


def _options(container: ContainerStart, place: str) -> list[str]:
    init = next((program for program in INIT_PROGRAMS if os.path.exists(program)), None)
    directory = _mounted(container.directory)
    shared = dict.fromkeys((*container.shared, *([directory] if directory else [])))
    written = [f"{name}={value}" for name, value in container.written.items()]
    passed = [name for name in container.passed if name in os.environ]
    return [
        *("--rm", "--name", "pod", "--pull", "never", "--pidfile", f"{place}/{leftovers.PID}"),
        *("--cgroups", "disabled", "--network", "host", "--ipc", "host", "--uts", "host", "--user", "0:0"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
        *("--group-add", "keep-groups", "--http-proxy=false", "--sdnotify", "ignore", "--entrypoint", ""),
        "--no-healthcheck",
        *(() if os.path.isdir(_QUEUES) else ("--mount", f"type=tmpfs,dst={_QUEUES}")),
        *(("--init", "--init-path", init) if init else ()),
        *(("--workdir", directory) if directory else ()),
        *(word for path in shared for word in ("--mount", f"type=bind,src={_plain(path)},dst={path}")),
        *("--mount", f"type=tmpfs,dst={_plain(place)},notmpcopyup,ro"),
        *(word for device in container.devices for word in ("--device", device)),
        *(word for variable in (*passed, *written) for word in ("--env", variable)),
        "--",
    ]


def _mounted(directory: str) -> str:
    """Return the working directory to mount into the container; empty for a directory of the image itself."""
    real = os.path.realpath(directory)
    return "" if real == "/" or any(f"{real}/".startswith(f"{prefix}/") for prefix in _OF_THE_IMAGE) else real


def _plain(path: str) -> str:
    """Return a path that can be part of an option.

    Raises:
        ContainerRefused: the path has a comma or a control character.
    """
    if "," in path or not path.isprintable():
        raise ContainerRefused(
            f"the directory {path!r} has a comma or a control character in its name: use another"
        )
    return path


def _own_variables(account: pwd.struct_passwd, place: str) -> dict[str, str]:
    """Return the variables of Podman itself."""
    logins = [pattern.format(uid=account.pw_uid, home=account.pw_dir) for pattern in _LOGINS]
    login = next((path for path in logins if os.path.exists(path)), None)
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "XDG_RUNTIME_DIR": RUN,
        "CONTAINERS_CONF": f"{place}/containers.conf",
        "_CONTAINERS_USERNS_CONFIGURED": "done",
        "_CONTAINERS_ROOTLESS_UID": str(account.pw_uid),
        "_CONTAINERS_ROOTLESS_GID": str(_outer("gid_map", os.getgid())),
        **({"REGISTRY_AUTH_FILE": login} if login else {}),
    }


def _outer(name: str, own: int) -> int:
    """Return the id on the machine of an id in this namespace."""
    with open(f"/proc/self/{name}", encoding="ascii") as file:
        for line in file:
            inside, outside, count = map(int, line.split())
            if inside <= own < inside + count:
                return outside + own - inside
    return own


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
