"""Notice to stop in a pod of a cluster, as the processes of a container get it."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import weir

SOURCE = str(Path(weir.__file__).parents[1])
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
LOOP = """
weir.stopping()
print("ready", flush=True)
while not weir.stopping():
    time.sleep(0.001)
print("saved", flush=True)
"""
WITHIN_S = 180


class Container:
    """A process as the kubelet starts and ends it."""

    def __init__(self, script: str, env: dict[str, str] = IN_CLUSTER, before: tuple[str, ...] = ()) -> None:
        start = f"import atexit, signal, sys, threading, time\nsys.path.append({SOURCE!r})\nimport weir\n"
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", start + textwrap.dedent(script)],
            env={key: value for key, value in os.environ.items() if not key.startswith("WEIR_")} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, *signals: int) -> tuple[int, list[str], str]:
        """Send signals once it is ready; return its exit code, its lines and its errors."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        for number in signals:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WITHIN_S)
        return self.process.returncode, out.splitlines(), err


def test_a_process_that_gets_a_notice_saves_and_does_not_succeed() -> None:
    script = "weir.stopping()\natexit.register(lambda: print('at exit'))" + LOOP
    assert Container(script).ended(signal.SIGTERM) == (120, ["saved", "at exit"], "")


def test_the_exit_code_is_that_of_the_process_until_the_notice() -> None:
    script = """
    weir.stopping()
    print("ready", flush=True)
    signal.sigtimedwait([signal.SIGUSR1], 60)
    print("done", flush=True)
    """
    masked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n" + textwrap.dedent(script)
    assert Container(masked).ended(signal.SIGTERM, signal.SIGUSR1) == (0, ["done"], "")
    assert Container("weir.stopping()\nprint('ready', flush=True)").ended() == (0, [], "")


def test_a_failure_after_the_notice_is_a_failure_and_is_reported() -> None:
    code, lines, err = Container(LOOP + "raise OSError('disk full')").ended(signal.SIGTERM)
    assert (code, lines) == (120, ["saved"])
    assert "disk full" in err


@pytest.mark.parametrize("late", [False, True])
def test_a_handler_of_the_program_is_called_too(late: bool) -> None:
    """Also one that is installed later and calls the former one."""
    script = """
    LATE and weir.stopping()
    former = signal.getsignal(signal.SIGTERM)
    def handle(number, frame):
        print("handled", flush=True)
        if callable(former):
            former(number, frame)
    signal.signal(signal.SIGTERM, handle)
    """
    script = textwrap.dedent(script).replace("LATE", str(late)) + "weir.stopping()\n" + LOOP
    assert Container(script).ended(signal.SIGTERM) == (120, ["handled", "saved"], "")


def test_another_thread_installs_nothing() -> None:
    script = """
    found = []
    thread = threading.Thread(target=lambda: found.append(weir.stopping()))
    thread.start()
    thread.join()
    assert found == [False]
    print("ready", flush=True)
    time.sleep(60)
    """
    assert Container(script).ended(signal.SIGTERM)[0] == -signal.SIGTERM


@pytest.mark.parametrize("env", [{}, {**IN_CLUSTER, "WEIR_POD_DIRECTORY": "/nowhere"}])
def test_elsewhere_the_signal_stays_as_it_is(env: dict[str, str]) -> None:
    assert Container(LOOP, env).ended(signal.SIGTERM)[0] == -signal.SIGTERM


def test_a_signal_that_is_ignored_is_a_notice_all_the_same() -> None:
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nweir.stopping()" + LOOP
    assert Container(script).ended(signal.SIGTERM) == (120, ["saved"], "")


@pytest.mark.skipif(os.geteuid() != 0, reason="a namespace of processes takes root")
def test_the_first_process_of_a_container_hears_it() -> None:
    script = "import os\nassert os.getpid() == 1\nweir.stopping()" + LOOP
    container = Container(script, before=("unshare", "--pid", "--fork", "--kill-child"))
    assert container.process.stdout is not None
    assert container.process.stdout.readline() == "ready\n"
    children = (
        Path(f"/proc/{container.process.pid}/task/{container.process.pid}/children").read_text().split()
    )
    os.kill(int(children[0]), signal.SIGTERM)
    out, _ = container.process.communicate(timeout=WITHIN_S)
    assert (container.process.returncode, out) == (120, "saved\n")


CALLS = """
for _ in range(2):
    weir.report(step=1, progress=0.5)
    weir.checkpointed(step=1)
    weir.busy("indexing")
    weir.world()
print("ready", flush=True)
"""
SWEEP = {
    "WEIR_SWEEP_MESSAGE": "/dev/null",
    "WEIR_SWEEP_METRIC": "loss",
    "WEIR_SWEEP_RUNG": "3",
    "WEIR_SWEEP_RUNGS": "3",
    "WORLD_SIZE": "1",
}


TOKEN_LACKS = (
    "weir: calls such as weir.report() have no effect now: this pod has no token of a service account "
    "(automountServiceAccountToken: false)."
)
WORLD_LACKS = (
    "weir: weir.world() knows no other pods here: set WORLD_SIZE and RANK in the pods' environment, as the "
    "controllers of training jobs do."
)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({}, []),
        (IN_CLUSTER, [TOKEN_LACKS, WORLD_LACKS]),
        ({**IN_CLUSTER, **SWEEP}, [TOKEN_LACKS]),
    ],
)
def test_calls_without_effect_on_a_cluster_are_reported_once_with_the_reason(
    env: dict[str, str], told: list[str]
) -> None:
    code, _, err = Container(CALLS, env).ended()
    assert code == 0
    assert sorted(line for line in err.splitlines() if line) == sorted(told)
