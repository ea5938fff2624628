"""Checks of a machine: each is a function of facts, and returns its verdict."""

from weir.cli.doctor.container_checks import container_gpus, container_runtime
from weir.cli.doctor.facts import (
    GpuFacts,
    GroupFacts,
    HomeFacts,
    HostFacts,
    MachineFacts,
    ServiceFacts,
    UserHome,
)
from weir.cli.doctor.findings import Finding, Verdict
from weir.cli.output.formatting import counted, size
from weir.model.resources import span

EVERYONE = 0o666
DEVICE_RULE_KERNEL = (4, 15)
SYSTEMD_MIN = 240
LIMITS_DRIVER = 615
"""Version of NVIDIA's driver that first limits memory for control groups."""
FREE_FAIL, FREE_WARN = 1 << 30, 20 << 30
FREE_FILES_WARN = 100_000
FILES_MIN = 4096
PROCESSES_MIN = 4096
CLOCK_BACK_S = 60.0
_CERTIFICATE_LEFT_S = 14 * 86400.0
NETWORKED = ("nfs", "cifs", "smb", "fuse.sshfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs")
VOLATILE = ("tmpfs", "ramfs", "overlay")
_NAMED = 3


def gpu_driver(facts: GpuFacts) -> Verdict:
    """Check that the driver answers for all GPUs of the bus."""
    if facts.problem and facts.on_bus:
        seen = counted(facts.on_bus, "NVIDIA GPU is", "NVIDIA GPUs are")
        return "failure", f"{seen} installed, and the driver doesn't answer: {facts.problem}."
    if not facts.gpus:
        why = f" ({facts.problem})" if facts.problem else ""
        return "warning", f"no NVIDIA GPU{why}: `weir up --virtual-gpus N` serves virtual ones only."
    if facts.gpus < facts.on_bus:
        lost = facts.on_bus - facts.gpus
        return "failure", (
            f"the driver lists {facts.gpus} of {facts.on_bus} GPUs: look for errors of the other {lost} "
            "with `dmesg | grep -i xid`."
        )
    return "ok", f"driver {facts.driver} with {counted(facts.gpus, 'GPU')}."


def device_files(facts: GpuFacts) -> Verdict:
    """Check that every user may open the device files."""
    if not facts.gpus:
        return "ok", "none are needed."
    missing = [path for path, mode in facts.files if mode is None]
    closed = [path for path, mode in facts.files if mode is not None and mode & EVERYONE != EVERYONE]
    if missing:
        return "failure", (
            f"{_some(missing)} missing, and jobs can't make device files: "
            "run `nvidia-modprobe -c=0 -u` at boot."
        )
    if closed:
        return "failure", (
            f"{_some(closed)} not open to all users: set NVreg_DeviceFileMode=0666 for the driver. "
            "Weir keeps jobs apart."
        )
    return "ok", f"{counted(len(facts.files), 'file')}, open to all users."


def persistence(facts: GpuFacts) -> Verdict:
    """Check that the driver stays loaded between jobs."""
    if facts.not_persistent:
        return "warning", (
            f"{counted(facts.not_persistent, 'GPU')} without persistence mode, so each job waits for the "
            "driver: systemctl enable --now nvidia-persistenced."
        )
    return "ok", "the driver stays loaded." if facts.gpus else "no GPU needs it."


def control_groups(facts: GroupFacts) -> Verdict:
    """Check that jobs can be limited and ended by control groups."""
    if facts.kind == "none" or facts.writable is False:
        problem = "no control groups" if facts.kind == "none" else "read-only control groups"
        return "failure", (
            f"{problem}: users can't be served, since a job could outlive its end. "
            "Run Weir as a service, or give the container its own."
        )
    missing = sorted({"cpu", "memory", "pids"} - facts.controllers)
    if missing:
        return "warning", (
            f"{facts.kind} without {', '.join(missing)}: these limits of jobs aren't enforced. Enable them "
            "at boot (cgroup_enable=)."
        )
    return "ok", f"{facts.kind} with cpu, memory and pids."


def device_rules(facts: GroupFacts) -> Verdict:
    """Check that jobs can be kept from GPUs of others."""
    if facts.kind in ("v1", "hybrid") and "devices" in facts.controllers:
        return "ok", "by the device controller of cgroup v1."
    if facts.kind == "v2" and facts.kernel >= DEVICE_RULE_KERNEL:
        return "ok", "by a program of cgroup v2."
    return "warning", (
        "by mounts of each job, which `weir exec` doesn't enter. Control groups can hold GPUs apart with the "
        "device controller of cgroup v1, or with cgroup v2 and Linux 4.15 or later."
    )


def gpu_memory(gpus: GpuFacts, groups: GroupFacts) -> Verdict:
    """Check that the driver can limit jobs that share a GPU to their parts of its memory."""
    if not gpus.gpus:
        return "ok", "there is no GPU to share."
    version = gpus.driver.partition(".")[0]
    lacks = [f"driver {LIMITS_DRIVER}"] if not version.isdigit() or int(version) < LIMITS_DRIVER else []
    lacks += ["cgroup v2"] if groups.kind != "v2" else []
    if lacks:
        return (
            "ok",
            f"shares of a GPU are cooperative: limits need {' and '.join(lacks)}, or later.",
        )
    return "ok", "the driver can limit shares: `weir describe` says whether it does."


def service_manager(facts: HostFacts) -> Verdict:
    """Check that systemd runs here and can delegate control groups to the pool."""
    if facts.systemd is None:
        return "warning", "it doesn't run this machine: your init has to start `weir node` as root."
    if facts.systemd < SYSTEMD_MIN:
        return "failure", f"{facts.systemd}, and {SYSTEMD_MIN} or later is needed."
    return "ok", f"{facts.systemd}."


def clock(facts: HostFacts, home: HomeFacts) -> Verdict:
    """Check that the clock is right, and wasn't set back."""
    ahead_s = (home.written_s or 0.0) - home.now_s
    if ahead_s > CLOCK_BACK_S:
        return (
            "failure",
            f"files of the home are {ahead_s:,.0f} s in the future: the clock was set back, or is wrong.",
        )
    if facts.clock_synchronised is False:
        return "warning", "not synchronised: enable chrony or systemd-timesyncd."
    sentence = "synchronised." if facts.clock_synchronised else "its synchronisation is unknown here."
    return "ok", sentence


def limits(facts: HostFacts) -> Verdict:
    """Check the limits that the server and its jobs inherit."""
    low = [
        f"{noun} {limit:,} (at least {least:,})"
        for noun, limit, least in (
            ("open files", facts.files_max, FILES_MIN),
            ("processes", facts.processes_max, PROCESSES_MIN),
        )
        if limit is not None and limit < least
    ]
    if low:
        return "warning", f"{facts.limits_of} has too low limits: {', '.join(low)}. Raise them in its unit."
    if facts.locked_bytes_max is not None:
        return "ok", (
            f"those of {facts.limits_of} suffice; RDMA also needs unlimited locked memory, and here it is "
            f"{size(facts.locked_bytes_max)}."
        )
    return "ok", f"those of {facts.limits_of} suffice."


def file_system(facts: HomeFacts) -> Verdict:
    """Check that the home's file system keeps files and locks."""
    if facts.read_only:
        return "failure", f"{facts.path} is on a read-only file system: choose another home."
    if facts.file_system.startswith(NETWORKED):
        return "failure", (
            f"{facts.path} is on {facts.file_system}, where locks and databases aren't safe: "
            "choose a home on a local disk."
        )
    if facts.file_system in VOLATILE:
        return (
            "warning",
            f"{facts.path} is on {facts.file_system}, which may not survive a restart of the machine.",
        )
    return "ok", f"{facts.path} is on {facts.file_system or 'an unknown file system'}."


def disk_space(facts: HomeFacts) -> Verdict:
    """Check that the home has space, and can be written."""
    if facts.writable is False:
        return "failure", f"{facts.path} can't be written: check its owner and its disk."
    free = size(facts.free_bytes)
    if facts.free_bytes < FREE_FAIL:
        return "failure", f"{free} free in {facts.path}, and the pool needs 1Gi at least."
    if facts.free_bytes < FREE_WARN:
        return "warning", f"{free} free in {facts.path}: output of jobs and checkpoints fill it."
    if facts.free_files is not None and facts.free_files < FREE_FILES_WARN:
        return "warning", f"only {facts.free_files:,} more files fit into {facts.path}."
    return "ok", f"{free} free in {facts.path}."


def socket(facts: ServiceFacts) -> Verdict:
    """Check that the socket of the machine belongs to the pool."""
    if not facts.owner:
        if facts.installed:
            how = "`systemctl start weir`" if facts.systemd else "the command that `sudo weir install` prints"
            return "failure", f"there is none: start the pool with {how}."
        return "ok", "no pool is installed; a personal pool has its socket in its home."
    if facts.expected_owner and facts.owner != facts.expected_owner:
        return "failure", (
            f"/run/weir belongs to {facts.owner} and not to {facts.expected_owner}: stop that program, "
            "remove the directory, and restart the pool."
        )
    if facts.closed_socket:
        return "failure", "other users can't connect to it: restart the pool, which sets its mode."
    return "ok", f"/run/weir/weir.sock of {facts.owner}."


def server(facts: ServiceFacts) -> Verdict:
    """Check that the server answers, in the version of this program."""
    if facts.problem:
        if not facts.installed:
            return "ok", "no pool is installed: `sudo weir install` installs one."
        return "failure", f"it doesn't answer ({facts.problem.rstrip('.')}): journalctl -u weir."
    if facts.trouble:
        return "failure", facts.trouble
    if facts.version != facts.own_version:
        return "warning", (
            f"the server runs version {facts.version}, and this program is {facts.own_version}: "
            "`sudo weir install` restarts the server."
        )
    if facts.enabled is False:
        return "warning", "it doesn't start with the machine: systemctl enable weir."
    return "ok", f"it answers, version {facts.version}."


def certificate(facts: ServiceFacts) -> Verdict:
    """Check that the certificate of the listener for other machines doesn't end soon."""
    left_s = facts.certificate_left_s
    if left_s is None:
        return "ok", "none is served: other machines don't reach the pool over HTTPS."
    replaced = "replace the file of --tls-certificate, which the server reads again by itself"
    if left_s <= 0:
        return "failure", f"it ended {span(-left_s)} ago: {replaced}."
    if left_s < _CERTIFICATE_LEFT_S:
        return "warning", f"it ends in {span(left_s)}: {replaced}."
    return "ok", f"it holds for {span(left_s)}."


def port(facts: ServiceFacts) -> Verdict:
    """Check that the server's port isn't another program's."""
    if facts.port_owner and facts.port_owner != (facts.owner or facts.expected_owner):
        return (
            "failure" if facts.installed and facts.problem else "warning",
            f"{facts.port} is used by a program of {facts.port_owner}: choose another with --port.",
        )
    if not facts.port:
        return "ok", "the server takes any that is free."
    return "ok", f"{facts.port} is {'the server' if facts.port_owner else 'free'}."


def program(facts: ServiceFacts) -> Verdict:
    """Check that only root can change the program that root runs."""
    if facts.unsafe:
        return "failure" if facts.installed else "warning", f"{facts.unsafe}."
    return "ok", "only root can change it, and everyone can run it."


def homes(people: tuple[UserHome, ...]) -> Verdict:
    """Check that jobs can reach the home directories of their users."""
    broken = [home for home in people if home.problem == "timed out"]
    if broken:
        return "failure", f"{_some([home.path for home in broken])} not answering: check the file server."
    tickets = [home.path for home in people if "krb5" in home.options]
    if tickets:
        return (
            "warning",
            f"{_some(tickets)} on NFS with Kerberos: a job loses its home when its user's ticket ends.",
        )
    squashed = [home.path for home in people if home.problem and home.file_system.startswith("nfs")]
    if squashed:
        return "warning", (
            f"{_some(squashed)} closed to root (root_squash): jobs reach them as their users, "
            "but programs that are installed there can't be Weir's own."
        )
    return "ok", f"{counted(len(people), 'home directory', 'home directories')} looked at."


def findings(facts: MachineFacts) -> list[Finding]:
    """Return the findings of all checks, in the best order for fixing them."""
    checks: tuple[tuple[str, Verdict], ...] = (
        ("GPU driver", gpu_driver(facts.gpus)),
        ("device files", device_files(facts.gpus)),
        ("persistence", persistence(facts.gpus)),
        ("control groups", control_groups(facts.groups)),
        ("device rules", device_rules(facts.groups)),
        ("GPU memory", gpu_memory(facts.gpus, facts.groups)),
        ("systemd", service_manager(facts.host)),
        ("clock", clock(facts.host, facts.home)),
        ("limits", limits(facts.host)),
        ("file system", file_system(facts.home)),
        ("disk space", disk_space(facts.home)),
        ("program", program(facts.service)),
        ("socket", socket(facts.service)),
        ("server", server(facts.service)),
        ("port", port(facts.service)),
        ("certificate", certificate(facts.service)),
        ("homes", homes(facts.people)),
        ("containers", container_runtime(facts.containers, facts.groups)),
        ("container GPUs", container_gpus(facts.containers, facts.gpus)),
    )
    return [Finding(check, *verdict) for check, verdict in checks]


def _some(names: list[str]) -> str:
    ending = (
        f" and {len(names) - _NAMED} more are"
        if len(names) > _NAMED
        else " is"
        if len(names) == 1
        else " are"
    )
    return ", ".join(names[:_NAMED]) + ending
