"""Attacks of a user of the machine, run as that user: each is refused by the kernel, or it succeeds and says so.

As a program it gets the facts as JSON, tries the attacks that they name, and prints the outcome of each.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

ATTACKS: dict[str, Callable[[dict[str, Any]], object]] = {}
_PTRACE_ATTACH, _PTRACE_SEIZE, _PIDFD_GETFD = 16, 0x4206, 438
_libc = ctypes.CDLL(None, use_errno=True)


def attack(function: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    """Add an attack under the name of its function."""
    ATTACKS[function.__name__] = function
    return function


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# Files of others, of the server and of the node process


@attack
def read_the_log_of_another(facts: dict[str, Any]) -> object:
    return open(f"{facts['own_directory']}/log").read()


@attack
def list_the_directory_of_another_job(facts: dict[str, Any]) -> object:
    return os.listdir(facts["own_directory"])


@attack
def write_a_message_for_another_job(facts: dict[str, Any]) -> object:
    return open(f"{facts['own_directory']}/notes.jsonl", "a").write("{}\n")


@attack
def read_the_checkpoints_of_another(facts: dict[str, Any]) -> object:
    return os.listdir(facts["checkpoints"])


@attack
def plant_a_checkpoint_for_another(facts: dict[str, Any]) -> object:
    return os.mkdir(f"{facts['checkpoints']}/state")


@attack
def link_the_next_checkpoint_directory(facts: dict[str, Any]) -> object:
    return os.symlink("/etc", f"{facts['home']}/checkpoints/99999")


@attack
def make_the_directory_of_the_next_job(facts: dict[str, Any]) -> object:
    return os.mkdir(f"{facts['home']}/jobs/99999")


@attack
def replace_the_directory_of_jobs(facts: dict[str, Any]) -> object:
    return os.rename(f"{facts['home']}/jobs", f"{facts['home']}/old")


@attack
def make_a_file_in_the_home(facts: dict[str, Any]) -> object:
    return os.mkdir(f"{facts['home']}/anything")


@attack
def list_the_home(facts: dict[str, Any]) -> object:
    return os.listdir(facts["home"])


@attack
def list_the_records(facts: dict[str, Any]) -> object:
    return os.listdir(f"{facts['home']}/pods")


@attack
def read_the_spec_of_another(facts: dict[str, Any]) -> object:
    return open(f"{facts['records']}/start.json").read()


@attack
def forge_the_end_of_another_job(facts: dict[str, Any]) -> object:
    return open(f"{facts['records']}/exit.json", "w").write('{"code":0,"at_s":1}')


@attack
def ask_another_job_to_stop(facts: dict[str, Any]) -> object:
    return open(f"{facts['records']}/stop.json", "w").write('{"grace_s":0}')


@attack
def take_the_lock_of_another_job(facts: dict[str, Any]) -> object:
    return os.open(f"{facts['records']}/lock", os.O_RDWR)


@attack
def read_the_database(facts: dict[str, Any]) -> object:
    return open(f"{facts['home']}/weir.db", "rb").read(100)


@attack
def read_the_token_of_the_administrator(facts: dict[str, Any]) -> object:
    return open(f"{facts['home']}/token").read()


@attack
def read_the_audit_log(facts: dict[str, Any]) -> object:
    return open(f"{facts['home']}/audit.jsonl").read()


@attack
def shorten_the_audit_log(facts: dict[str, Any]) -> object:
    return os.truncate(f"{facts['home']}/audit.jsonl", 0)


@attack
def read_the_secrets_of_projects(facts: dict[str, Any]) -> object:
    return os.listdir(f"{facts['home']}/secrets")


@attack
def remove_the_socket_of_messages(facts: dict[str, Any]) -> object:
    return os.unlink(f"{facts['home']}/notes.sock")


@attack
def remove_the_socket_of_the_machine(facts: dict[str, Any]) -> object:
    return os.unlink(facts["socket"])


@attack
def listen_in_place_of_the_server(facts: dict[str, Any]) -> object:
    os.rename(facts["socket"], facts["socket"] + ".old")
    return socket.socket(socket.AF_UNIX).bind(facts["socket"])


@attack
def change_the_address_of_the_server(facts: dict[str, Any]) -> object:
    return open(os.path.dirname(facts["socket"]) + "/server.json", "w")


# Processes


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)  # harmless where it works


@attack
def signal_the_job_of_another(facts: dict[str, Any]) -> object:
    return _kill(facts["leader"])


@attack
def signal_the_supervisor_of_another(facts: dict[str, Any]) -> object:
    return _kill(facts["supervisor"])


@attack
def signal_the_server(facts: dict[str, Any]) -> object:
    return _kill(facts["server"])


@attack
def signal_the_node_process(facts: dict[str, Any]) -> object:
    return _kill(facts["node"])


@attack
def read_the_environment_of_another_job(facts: dict[str, Any]) -> object:
    return open(f"/proc/{facts['leader']}/environ", "rb").read()


@attack
def read_the_environment_of_the_server(facts: dict[str, Any]) -> object:
    return open(f"/proc/{facts['server']}/environ", "rb").read()


@attack
def read_the_environment_of_the_node_process(facts: dict[str, Any]) -> object:
    return open(f"/proc/{facts['node']}/environ", "rb").read()


@attack
def list_the_open_files_of_the_node_process(facts: dict[str, Any]) -> object:
    return os.listdir(f"/proc/{facts['node']}/fd")


@attack
def list_the_open_files_of_the_server(facts: dict[str, Any]) -> object:
    return os.listdir(f"/proc/{facts['server']}/fd")


@attack
def write_the_memory_of_the_server(facts: dict[str, Any]) -> object:
    return os.open(f"/proc/{facts['server']}/mem", os.O_RDWR)


@attack
def trace_the_job_of_another(facts: dict[str, Any]) -> object:
    return _checked(_libc.ptrace(_PTRACE_SEIZE, facts["leader"], 0, 0))


@attack
def trace_the_server(facts: dict[str, Any]) -> object:
    return _checked(_libc.ptrace(_PTRACE_SEIZE, facts["server"], 0, 0))


# The attacker's own job, in which this runs as well


@attack
def trace_the_own_supervisor(facts: dict[str, Any]) -> object:
    return _checked(_libc.ptrace(_PTRACE_SEIZE, facts["own_supervisor"], 0, 0))


@attack
def list_the_open_files_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    return os.listdir(f"/proc/{facts['own_supervisor']}/fd")


@attack
def write_the_memory_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    return os.open(f"/proc/{facts['own_supervisor']}/mem", os.O_RDWR)


@attack
def take_a_file_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    process = os.pidfd_open(facts["own_supervisor"])
    return [_checked(_libc.syscall(_PIDFD_GETFD, process, fd, 0)) for fd in range(3, 10)]


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
    _checked(_libc.unshare(0x10000000 | 0x00020000))  # user and mounts
    return os.mknod(f"{os.environ['WEIR_POD_DIRECTORY']}/gpu2", 0o020666, os.stat(facts["gpu"]).st_rdev)


@attack
def open_the_gpu_in_a_user_namespace(facts: dict[str, Any]) -> object:
    if os.fork() == 0:
        try:
            _checked(_libc.unshare(0x10000000))
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
    return _checked(_libc.setns(os.open(f"/proc/{facts['node']}/ns/mnt", os.O_RDONLY), 0))


@attack
def unmount_what_covers_the_gpu(facts: dict[str, Any]) -> object:
    return _checked(_libc.umount2(facts["gpu"].encode(), 2))


@attack
def unmount_what_covers_the_gpu_in_a_user_namespace(facts: dict[str, Any]) -> object:
    _checked(_libc.unshare(0x10000000 | 0x00020000))  # user and mounts
    _libc.umount2(facts["gpu"].encode(), 2)
    _libc.mount(None, facts["gpu"].encode(), None, ctypes.c_ulong(32 | 4096), None)  # again, with devices
    return os.open(facts["gpu"], os.O_RDONLY)


@attack
def mount_the_gpu_elsewhere_in_a_user_namespace(facts: dict[str, Any]) -> object:
    own = f"{os.environ['WEIR_POD_DIRECTORY']}/elsewhere"
    open(own, "w").close()
    _checked(_libc.unshare(0x10000000 | 0x00020000))
    _checked(_libc.mount(facts["gpu"].encode(), own.encode(), None, ctypes.c_ulong(4096), None))
    _libc.mount(None, own.encode(), None, ctypes.c_ulong(32 | 4096), None)
    return os.open(own, os.O_RDONLY)


@attack
def raise_a_resource_limit(_: dict[str, Any]) -> object:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    more = struct.pack("=QQ", hard + 1, hard + 1)
    return _checked(_libc.setrlimit(resource.RLIMIT_NOFILE, more))


@attack
def raise_a_resource_limit_of_the_own_supervisor(facts: dict[str, Any]) -> object:
    more = struct.pack("=QQ", 1 << 20, 1 << 20)
    return _checked(_libc.prlimit(facts["own_supervisor"], resource.RLIMIT_NOFILE, more, None))


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


@attack
def allow_oneself_every_device(facts: dict[str, Any]) -> object:
    group = next(group for group in facts["groups"] if os.path.exists(f"{group}/devices.allow"))
    return _write(f"{group}/devices.allow", "a")


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


def main(facts: dict[str, Any]) -> None:
    """Try the attacks of `only`, each in a process of its own, and print the outcomes as JSON."""
    outcomes = {}
    for name in facts["only"]:
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                text = f"SUCCEEDED: {ATTACKS[name](facts)!r}"
            except OSError as failure:
                text = f"refused: {failure}"
            except Exception as failure:  # noqa: BLE001 - an attack that breaks is no refusal
                text = f"BROKEN: {failure!r}"
            os.write(writing, text[:500].encode())
            os._exit(0)
        os.close(writing)
        os.wait()
        outcomes[name] = os.read(reading, 1000).decode()
        os.close(reading)
    print("OUTCOMES " + json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
