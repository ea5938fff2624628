"""Attacks on the limits of the attacker's own job, in which they run: its supervisor, devices and groups."""

import ctypes
import errno
import os
import resource
import struct
from typing import Any

from .registry import PTRACE_SEIZE, attack, checked, libc

_PIDFD_GETFD = 438
_BPF = {"aarch64": 280, "x86_64": 321, "ppc64le": 361, "s390x": 351}
_PROG_DETACH, _PROG_GET_FD_BY_ID, _CGROUP_DEVICE_HOOK = 9, 13, 6


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@attack
def trace_the_own_supervisor(facts: dict[str, Any]) -> object:
    return checked(libc.ptrace(PTRACE_SEIZE, facts["own_supervisor"], 0, 0))


@attack
def list_the_open_files_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    return os.listdir(f"/proc/{facts['own_supervisor']}/fd")


@attack
def write_the_memory_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    return os.open(f"/proc/{facts['own_supervisor']}/mem", os.O_RDWR)


@attack
def take_a_file_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    process = os.pidfd_open(facts["own_supervisor"])
    return [checked(libc.syscall(_PIDFD_GETFD, process, fd, 0)) for fd in range(3, 10)]


@attack
def forge_the_own_end(facts: dict[str, Any]) -> object:
    return open(f"{facts['own_records']}/exit.json", "w").write('{"code":0,"at_s":1}')


@attack
def replace_the_own_directory(facts: dict[str, Any]) -> object:
    own = os.environ["WEIR_POD_DIRECTORY"]
    os.rename(own, own + ".old")
    return os.symlink("/etc", own)


@attack
def give_the_own_checkpoints_away(_: dict[str, Any]) -> object:
    return os.chown(os.environ["WEIR_CHECKPOINT_DIR"], 0, 0)


@attack
def open_the_gpu_of_another(facts: dict[str, Any]) -> object:
    return os.open(facts["gpu"], os.O_RDONLY)


@attack
def make_a_device_file(facts: dict[str, Any]) -> object:
    return os.mknod(f"{os.environ['WEIR_POD_DIRECTORY']}/gpu", 0o020666, os.stat(facts["gpu"]).st_rdev)


@attack
def make_a_device_file_in_a_user_namespace(facts: dict[str, Any]) -> object:
    checked(libc.unshare(0x10000000 | 0x00020000))  # user and mounts
    return os.mknod(f"{os.environ['WEIR_POD_DIRECTORY']}/gpu2", 0o020666, os.stat(facts["gpu"]).st_rdev)


@attack
def open_the_gpu_in_a_user_namespace(facts: dict[str, Any]) -> object:
    if os.fork() == 0:
        try:
            checked(libc.unshare(0x10000000))
            os.open(facts["gpu"], os.O_RDONLY)
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.wait()[1]) != 0:
        raise PermissionError(1, "refused")
    return "opened"


@attack
def open_the_gpu_through_another_root(facts: dict[str, Any]) -> object:
    return [os.open(f"/proc/{pid}/root{facts['gpu']}", os.O_RDONLY) for pid in (facts["own_supervisor"], 1)]


@attack
def enter_the_mounts_of_the_node_process(facts: dict[str, Any]) -> object:
    return checked(libc.setns(os.open(f"/proc/{facts['node']}/ns/mnt", os.O_RDONLY), 0))


@attack
def unmount_what_covers_the_gpu(facts: dict[str, Any]) -> object:
    return checked(libc.umount2(facts["gpu"].encode(), 2))


@attack
def unmount_what_covers_the_gpu_in_a_user_namespace(facts: dict[str, Any]) -> object:
    checked(libc.unshare(0x10000000 | 0x00020000))  # user and mounts
    libc.umount2(facts["gpu"].encode(), 2)
    libc.mount(None, facts["gpu"].encode(), None, ctypes.c_ulong(32 | 4096), None)  # again, with devices
    return os.open(facts["gpu"], os.O_RDONLY)


@attack
def mount_the_gpu_elsewhere_in_a_user_namespace(facts: dict[str, Any]) -> object:
    own = f"{os.environ['WEIR_POD_DIRECTORY']}/elsewhere"
    open(own, "w").close()
    checked(libc.unshare(0x10000000 | 0x00020000))
    checked(libc.mount(facts["gpu"].encode(), own.encode(), None, ctypes.c_ulong(4096), None))
    libc.mount(None, own.encode(), None, ctypes.c_ulong(32 | 4096), None)
    return os.open(own, os.O_RDONLY)


@attack
def raise_a_resource_limit(_: dict[str, Any]) -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = struct.pack("=QQ", hard + 1, hard + 1)
    return checked(libc.setrlimit(resource.RLIMIT_NOFILE, more))


@attack
def raise_a_resource_limit_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    more = struct.pack("=QQ", 1 << 20, 1 << 20)
    return checked(libc.prlimit(facts["own_supervisor"], resource.RLIMIT_NOFILE, more, None))


@attack
def change_a_limit_of_the_own_control_groups(facts: dict[str, Any]) -> object:
    """Try every file: memory, processes, and memory of GPUs (dmem) where the kernel has it."""
    for group in facts["groups"]:
        for name in os.listdir(group):
            try:
                return os.open(f"{group}/{name}", os.O_WRONLY), name
            except PermissionError as failure:
                refusal = failure
    raise refusal


@attack
def remove_the_own_control_groups(facts: dict[str, Any]) -> object:
    return [os.rmdir(group) for group in facts["groups"]]


@attack
def leave_the_control_group(facts: dict[str, Any]) -> object:
    for group in facts["groups"]:
        _write(os.path.dirname(os.path.dirname(group)) + "/cgroup.procs", "0")
    return "left"


@attack
def join_the_supervisors(facts: dict[str, Any]) -> object:
    for group in facts["groups"]:
        _write(os.path.dirname(group) + "/supervisors/cgroup.procs", "0")
    return "joined"


def _detach_the_device_rules(group: str) -> object:
    """Detach the program of version 2 that refuses devices: only a descriptor of it would allow that."""
    fd = os.open(group, os.O_RDONLY)
    for number in range(1, 1000):
        program = _bpf(_PROG_GET_FD_BY_ID, number)
        if program >= 0:
            return checked(_bpf(_PROG_DETACH, fd, program, _CGROUP_DEVICE_HOOK))
        if ctypes.get_errno() != errno.ENOENT:
            break
    return checked(program)


def _bpf(command: int, *given: int) -> int:
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(given)}I", *given), 128)
    done: int = libc.syscall(_BPF[os.uname().machine], command, attributes, len(attributes))
    return done


@attack
def allow_oneself_every_device(facts: dict[str, Any]) -> object:
    for group in facts["groups"]:
        if os.path.exists(f"{group}/devices.allow"):
            return _write(f"{group}/devices.allow", "a")
    return [_detach_the_device_rules(group) for group in facts["groups"]]


@attack
def lift_the_limit_of_processes(facts: dict[str, Any]) -> object:
    group = next(group for group in facts["groups"] if os.path.exists(f"{group}/pids.max"))
    return _write(f"{group}/pids.max", "max")


@attack
def make_a_control_group_of_ones_own(facts: dict[str, Any]) -> object:
    return [os.mkdir(f"{group}/deeper") for group in facts["groups"]]


@attack
def become_root_by_a_set_uid_program(facts: dict[str, Any]) -> object:
    if (found := os.popen(f"{facts['set_uid_id']} -u").read().strip()) != "0":
        raise PermissionError(1, f"it ran as {found}")
    return found


@attack
def become_root_by_asking(_: dict[str, Any]) -> object:
    return os.setuid(0)


@attack
def become_the_server(facts: dict[str, Any]) -> object:
    return os.setresgid(facts["server_gid"], facts["server_gid"], facts["server_gid"])
