"""`weir doctor`: each check says what was found, what is needed and what to do."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weir.cli.doctor import checks, command, gpu_reader, host_reader, service_reader
from weir.cli.doctor.container_checks import container_gpus, container_runtime
from weir.cli.doctor.facts import (
    ContainerFacts,
    GpuFacts,
    GroupFacts,
    HomeFacts,
    HostFacts,
    MachineFacts,
    ServiceFacts,
    UserHome,
)
from weir.cli.doctor.findings import Verdict
from weir.cli.doctor.time_limit import NotInTime, within
from weir.cli.install.host import Host
from weir.cli.install.settings import InstallSettings

GPUS = GpuFacts(
    on_bus=2,
    gpus=2,
    driver="570.1",
    files=(("/dev/nvidiactl", 0o666), ("/dev/nvidia-uvm", 0o666), ("/dev/nvidia0", 0o666)),
)
GROUPS = GroupFacts(kind="v2", controllers=frozenset({"cpu", "memory", "pids"}), kernel=(6, 8))
HOST = HostFacts(systemd=255, clock_synchronised=True, files_max=65_536)
HOME = HomeFacts(path="/var/lib/weir", file_system="ext4", free_bytes=1 << 40, now_s=1000.0)
SERVICE = ServiceFacts(
    installed=True,
    enabled=True,
    version="1.0",
    own_version="1.0",
    owner="weir",
    expected_owner="weir",
    port=9347,
    port_owner="weir",
)
MIA = UserHome(user="mia", path="/home/mia", file_system="ext4")
PODMAN = ContainerFacts(podman=True, passes_signals_on=True, specified_gpus=3)
GOOD = MachineFacts(
    gpus=GPUS, groups=GROUPS, host=HOST, home=HOME, service=SERVICE, people=(MIA,), containers=PODMAN
)

CASES: list[tuple[Callable[[], Verdict], str, str]] = [
    (lambda: checks.gpu_driver(replace(GPUS, gpus=0, problem="mismatch")), "failure", "mismatch"),
    (lambda: checks.gpu_driver(replace(GPUS, gpus=1)), "failure", "1 of 2"),
    (lambda: checks.gpu_driver(GpuFacts(problem="no library")), "warning", "--virtual-gpus"),
    (lambda: checks.device_files(GpuFacts()), "ok", "none"),
    (
        lambda: checks.device_files(replace(GPUS, files=(("/dev/nvidia-uvm", None),))),
        "failure",
        "nvidia-modprobe",
    ),
    (lambda: checks.device_files(replace(GPUS, files=(("/dev/nvidia0", 0o660),))), "failure", "0666"),
    (lambda: checks.persistence(replace(GPUS, not_persistent=1)), "warning", "nvidia-persistenced"),
    (lambda: checks.control_groups(GroupFacts()), "failure", "outlive"),
    (lambda: checks.control_groups(replace(GROUPS, writable=False)), "failure", "read-only"),
    (
        lambda: checks.control_groups(replace(GROUPS, controllers=frozenset({"cpu"}))),
        "warning",
        "memory, pids",
    ),
    (lambda: checks.device_rules(replace(GROUPS, kernel=(4, 14))), "warning", "4.15"),
    (lambda: checks.device_rules(replace(GROUPS, kind="v1")), "warning", "weir exec"),
    (
        lambda: checks.device_rules(replace(GROUPS, kind="hybrid", controllers=frozenset({"devices"}))),
        "ok",
        "v1",
    ),
    (lambda: checks.gpu_memory(GPUS, GROUPS), "ok", "cooperative: limits need driver 615, or"),
    (lambda: checks.gpu_memory(replace(GPUS, driver="615.43.02"), GROUPS), "ok", "can limit shares"),
    (
        lambda: checks.gpu_memory(replace(GPUS, driver="?"), replace(GROUPS, kind="v1")),
        "ok",
        "615 and cgroup v2",
    ),
    (lambda: checks.gpu_memory(GpuFacts(), GROUPS), "ok", "no GPU"),
    (lambda: checks.service_manager(HostFacts()), "warning", "weir node"),
    (lambda: checks.service_manager(replace(HOST, systemd=219)), "failure", "240"),
    (lambda: checks.service_manager(replace(HOST, systemd=252)), "ok", "252"),
    (lambda: checks.clock(replace(HOST, clock_synchronised=False), HOME), "warning", "chrony"),
    (lambda: checks.clock(HOST, replace(HOME, written_s=9000.0)), "failure", "8,000 s"),
    (lambda: checks.clock(replace(HOST, clock_synchronised=None), HOME), "ok", "unknown"),
    (lambda: checks.limits(replace(HOST, files_max=1024, processes_max=100)), "warning", "1,024"),
    (lambda: checks.limits(replace(HOST, locked_bytes_max=1 << 20)), "ok", "RDMA"),
    (lambda: checks.file_system(replace(HOME, file_system="nfs4")), "failure", "local disk"),
    (lambda: checks.file_system(replace(HOME, read_only=True)), "failure", "read-only"),
    (lambda: checks.file_system(replace(HOME, file_system="tmpfs")), "warning", "restart"),
    (lambda: checks.disk_space(replace(HOME, writable=False)), "failure", "written"),
    (lambda: checks.disk_space(replace(HOME, free_bytes=1 << 20)), "failure", "1Gi at least"),
    (lambda: checks.disk_space(replace(HOME, free_bytes=2 << 30)), "warning", "2Gi"),
    (lambda: checks.disk_space(replace(HOME, free_files=10)), "warning", "10 more files"),
    (lambda: checks.socket(replace(SERVICE, owner="")), "failure", "systemctl start weir"),
    (
        lambda: checks.socket(replace(SERVICE, owner="", systemd=False)),
        "failure",
        "`sudo weir install` prints",
    ),
    (lambda: checks.socket(replace(SERVICE, owner="", installed=False)), "ok", "no pool"),
    (lambda: checks.socket(replace(SERVICE, owner="eve")), "failure", "eve"),
    (lambda: checks.socket(replace(SERVICE, closed_socket=True)), "failure", "other users"),
    (lambda: checks.server(replace(SERVICE, problem="Silence.")), "failure", "(Silence)"),
    (lambda: checks.server(replace(SERVICE, problem="x", installed=False)), "ok", "weir install"),
    (lambda: checks.server(replace(SERVICE, trouble="The disk is full.")), "failure", "full"),
    (lambda: checks.server(replace(SERVICE, version="0.9")), "warning", "restarts the server"),
    (lambda: checks.server(replace(SERVICE, enabled=False)), "warning", "systemctl enable"),
    (lambda: checks.port(replace(SERVICE, port_owner="eve", problem="x")), "failure", "--port"),
    (lambda: checks.port(replace(SERVICE, port_owner="eve")), "warning", "eve"),
    (lambda: checks.port(replace(SERVICE, port_owner="")), "ok", "free"),
    (lambda: checks.program(replace(SERVICE, unsafe="/x is closed")), "failure", "/x is closed."),
    (lambda: checks.homes((replace(MIA, problem="timed out"),)), "failure", "file server"),
    (lambda: container_runtime(ContainerFacts(), GROUPS), "ok", "isn't installed"),
    (lambda: container_runtime(replace(PODMAN, missing=("crun",)), GROUPS), "failure", "crun is missing"),
    (lambda: container_runtime(PODMAN, replace(GROUPS, kernel=(5, 4))), "failure", "5.13"),
    (lambda: container_runtime(replace(PODMAN, namespace_problem="denied"), GROUPS), "failure", "(denied)"),
    (lambda: container_runtime(replace(PODMAN, passes_signals_on=False), GROUPS), "warning", "catatonit"),
    (lambda: container_gpus(replace(PODMAN, specified_gpus=0), GPUS), "warning", "nvidia-ctk cdi generate"),
    (lambda: container_gpus(PODMAN, GpuFacts()), "ok", "none"),
    (lambda: checks.homes((replace(MIA, options="rw,sec=krb5p"),)), "warning", "ticket"),
    (lambda: checks.certificate(SERVICE), "ok", "none is served"),
    (lambda: checks.certificate(replace(SERVICE, certificate_left_s=90 * 86400.0)), "ok", "holds for 90d"),
    (lambda: checks.certificate(replace(SERVICE, certificate_left_s=5 * 86400.0)), "warning", "ends in 5d"),
    (lambda: checks.certificate(replace(SERVICE, certificate_left_s=-3600.0)), "failure", "ended 1h ago"),
    (
        lambda: checks.homes((replace(MIA, file_system="nfs4", problem="Permission denied"),) * 5),
        "warning",
        "and 2 more",
    ),
]


def test_machine_as_it_should_be_has_no_complaint() -> None:
    found = checks.findings(GOOD)
    assert {each.severity for each in found} == {"ok"}
    assert len({each.check for each in found}) == len(found) == 19


@pytest.mark.parametrize(("check", "severity", "said"), CASES)
def test_check_says_what_was_found_and_what_to_do(
    check: Callable[[], Verdict], severity: str, said: str
) -> None:
    found, text = check()
    assert found == severity
    assert said in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("facts", "code"),
    [(GOOD, 0), (replace(GOOD, gpus=replace(GPUS, gpus=1)), 1), (replace(GOOD, host=HostFacts()), 0)],
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_exit_code_is_1_if_a_check_fails(
    facts: MachineFacts,
    code: int,
    output: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "read_facts", lambda _home: facts)
    assert command.doctor(output=output) == code
    said = capsys.readouterr().out
    if output == "json":
        found = json.loads(said)
        assert [each["severity"] for each in found].count("failure") == code
        assert set(found[0]) == {"check", "severity", "text"}
    else:
        assert f"19 checks: {code} failed" in said


@pytest.mark.parametrize("as_user", [None, 65534])
def test_this_machine_is_checked_by_root_and_by_others(tmp_path: Path, as_user: int | None) -> None:
    if as_user is not None and os.getuid() != 0:
        pytest.skip("only root can be others")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from weir.cli.doctor import command\n"
        "import weir.cli.output.outputs\n"
        "command.read_facts(Path(sys.argv[1]))  # imports what the other user can't read\n"
        f"as_user = {as_user}\n"
        "if as_user is not None: os.setgroups([]); os.setgid(as_user); os.setuid(as_user)\n"
        "command.doctor(home=Path(sys.argv[1]), output='json')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert len(found) == 19
    assert {each["severity"] for each in found} <= {"ok", "warning", "failure"}
    assert not list(tmp_path.iterdir()), "it changes nothing"


def test_driver_that_hangs_is_a_finding() -> None:
    with pytest.raises(NotInTime):
        within(0.01, lambda: time.sleep(60))
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)
    assert within(60, lambda: 7) == 7


class FakeLibrary:
    """NVML of two GPUs, one without persistence mode."""

    NVMLError = RuntimeError

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:  # noqa: N802
        return at

    def nvmlDeviceGetMinorNumber(self, board: int) -> int:  # noqa: N802
        return board + 4

    def nvmlDeviceGetPersistenceMode(self, board: int) -> int:  # noqa: N802
        return board

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"570.1"


def test_gpus_are_counted_on_the_bus_and_by_the_driver(tmp_path: Path) -> None:
    for name, vendor, kind in (
        ("0", "0x10de", "0x030200"),
        ("1", "0x10de", "0x040300"),
        ("2", "0x8086", "0x030000"),
    ):
        device = tmp_path / "sys/bus/pci/devices" / name
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia4"):
        (tmp_path / "dev" / name).touch()
        (tmp_path / "dev" / name).chmod(0o666)
    found = gpu_reader._asked(FakeLibrary(), gpu_reader._on_bus(tmp_path / "sys/bus/pci/devices"), tmp_path)
    assert (found.on_bus, found.gpus, found.driver, found.not_persistent) == (1, 2, "570.1", 1)
    assert dict(found.files) == {
        "/dev/nvidiactl": 0o666,
        "/dev/nvidia-uvm": None,
        "/dev/nvidia4": 0o666,
        "/dev/nvidia5": None,
    }


@pytest.mark.parametrize(
    ("lines", "kind", "writable"),
    [
        (["24 1 0:21 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"], "v2", None),
        (["24 1 0:21 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw"], "v2", False),
        (["24 1 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"], "v1", None),
        (["24 1 0:21 / / rw - ext4 /dev/vda rw"], "none", None),
        (
            ["x", "24 1 0:21 / /a rw - cgroup2 c rw", "25 1 0:22 / /b rw - cgroup c rw,devices"],
            "hybrid",
            None,
        ),
    ],
)
def test_control_groups_are_read_from_the_mounts(
    tmp_path: Path, lines: list[str], kind: str, writable: bool | None
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("\n".join(lines))
    found = host_reader.group_facts(tmp_path)
    assert (found.kind, found.writable) == (kind, writable)
    assert ("memory" in found.controllers) == (kind == "v1")


def test_owner_of_a_port_is_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    listens = (
        "   0: 0100007F:2483 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
    )
    (tmp_path / "net/tcp").write_text(f"  sl  local_address\n{listens}")
    assert service_reader.port_owner(9347, tmp_path) == "root"
    assert not service_reader.port_owner(9348, tmp_path)


@pytest.mark.parametrize(
    ("options", "port"),
    [
        ((), 9347),
        (("--policy", "fair"), 9347),
        (("--port", "9400"), 9400),
        (("--listen", "0.0.0.0", "--port=9401"), 9401),
        (("--port", "9400", "--port", "9402"), 9402),
    ],
)
def test_the_port_of_a_stopped_server_is_the_configured_one(
    options: tuple[str, ...], port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_reader, "SOCKET_DIRECTORY", tmp_path)
    monkeypatch.setattr(service_reader, "port_owner", {port: "eve"}.get)
    facts = service_reader.service_facts(Host(tmp_path), InstallSettings(options=options), None)
    assert (facts.port, facts.port_owner) == (port, "eve")
    assert checks.port(facts)[0] == "failure"


def test_newest_change_of_the_home_shows_a_clock_that_was_set_back(tmp_path: Path) -> None:
    file = tmp_path / "weir.db"
    file.touch()
    ahead_s = time.time() + 86_400
    os.utime(file, (ahead_s, ahead_s))
    found = host_reader.home_facts(tmp_path)
    assert checks.clock(HOST, found)[0] == "failure"
