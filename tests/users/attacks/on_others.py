"""Attacks on the files and processes of others, of the server and of the node process."""

import os
import signal
import socket
from typing import Any

from .registry import PTRACE_SEIZE, attack, checked, libc

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
    return checked(libc.ptrace(PTRACE_SEIZE, facts["leader"], 0, 0))


@attack
def trace_the_server(facts: dict[str, Any]) -> object:
    return checked(libc.ptrace(PTRACE_SEIZE, facts["server"], 0, 0))
