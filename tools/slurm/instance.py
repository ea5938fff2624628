"""A private Slurm on the loopback: a controller, one real node, and seven that only exist in its files."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.slurm.programs import NoSlurm, SlurmPrograms

NODE = "box"
_GPUS = 8
_READY_S = 120.0
_END_S = 20.0
_CONF = """\
ClusterName=referee
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
PluginDir={plugins}
PlugStackConfig=/dev/null
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=64 RealMemory=512000 {more}
NodeName=far[1-7] NodeHostname=localhost NodeAddr=127.0.0.1 Port={far_port} CPUs=64 RealMemory=512000 {more}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=debug Nodes=ALL MaxTime=INFINITE State=UP
"""
_MORE = "Gres=gpu:a100:4,gpu:v100:4 Feature=a100,v100,ssd State=UNKNOWN"
_GRES = """\
Name=gpu Type=a100 File={home}/gpus/gpu[0-3]
Name=gpu Type=v100 File={home}/gpus/gpu[4-7]
"""


@dataclass(frozen=True, slots=True)
class Instance:
    """A running Slurm. `environment` is what its commands need."""

    programs: SlurmPrograms
    home: Path
    environment: Mapping[str, str]

    def run(
        self, words: Sequence[str], cwd: Path, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm; the first word is its name."""
        return subprocess.run(
            [self.programs[words[0]], *words[1:]],
            cwd=cwd,
            env={**self.environment, **(variables or {})},
            check=False,
            capture_output=True,
            text=True,
            timeout=_READY_S,
        )


@contextmanager
def instance(programs: SlurmPrograms, home: Path) -> Iterator[Instance]:
    """Run a private Slurm in a directory, and end it.

    Raises:
        NoSlurm: it doesn't start.
    """
    _write(programs, home)
    own = {
        **programs.environment(),
        "SLURM_CONF": str(home / "slurm.conf"),
        "PATH": f"{programs.commands}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "HOME": os.environ.get("HOME", "/"),
        "USER": os.environ.get("USER", "root"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    running = Instance(programs, home, own)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for words in (
            [programs["slurmctld"], "-D", "-c"],
            [programs["slurmd"], "-D", "-N", NODE, "-d", programs["slurmstepd"]],
        ):
            with (home / f"{Path(words[0]).name}.out").open("wb") as out:
                daemons.append(
                    subprocess.Popen(
                        words, cwd=home, env=own, stdin=subprocess.DEVNULL, stdout=out, stderr=out
                    )
                )
        _wait_until_ready(running, daemons)
        yield running
    finally:
        _end(running, daemons)


def _write(programs: SlurmPrograms, home: Path) -> None:
    """Write the configuration, and files in place of GPUs."""
    for name in ("state", "spool", "gpus"):
        (home / name).mkdir(parents=True)
    for index in range(_GPUS):
        (home / "gpus" / f"gpu{index}").touch()
    ports = _free_ports(3)
    import pwd

    conf = _CONF.format(
        controller_port=ports[0],
        node_port=ports[1],
        far_port=ports[2],
        home=home,
        plugins=programs.plugins,
        node=NODE,
        user=pwd.getpwuid(os.getuid()).pw_name,
        more=_MORE,
    )
    (home / "slurm.conf").write_text(conf)
    (home / "gres.conf").write_text(_GRES.format(home=home))


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def _wait_until_ready(running: Instance, daemons: Sequence[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + _READY_S
    output = ""
    while time.monotonic() < end and all(daemon.poll() is None for daemon in daemons):
        done = running.run(["scontrol", "show", "node", NODE], running.home)
        output = done.stdout + done.stderr
        if "State=IDLE" in output:
            return
        time.sleep(0.2)
    raise NoSlurm(f"Slurm doesn't start in {running.home}: {output.strip()[-300:]}")


def _end(running: Instance, daemons: Sequence[subprocess.Popen[bytes]]) -> None:
    """Cancel all jobs, and end the daemons."""
    if daemons and daemons[0].poll() is None:
        with suppress(subprocess.TimeoutExpired):
            running.run(
                ["scancel", "--full", "--signal=KILL", "--user", running.environment["USER"]], running.home
            )
    for daemon in reversed(daemons):
        if daemon.poll() is None:
            daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(_END_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
