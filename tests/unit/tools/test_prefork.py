"""Processes that the prefork server forks are processes like any other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools import prefork

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['NAME'], os.getcwd()]))"


def python(*words: str) -> list[str]:
    return [sys.executable, *words]


def test_arguments_environment_and_directory_arrive(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("w") as file:
        process = prefork.start(
            python("-c", SHOW, "a b", "ü"), stdout=file.fileno(), cwd=tmp_path, env={"NAME": "value"}
        )
        assert process.wait(180) == 0
    assert out.read_text() == f'[["a b", "\\u00fc"], "value", "{tmp_path}"]\n'


def test_a_module_runs_as_the_main_one() -> None:
    done = prefork.run(python("-m", "weir", "--version"), check=True)
    assert (
        done.stdout
        == subprocess.run(
            python("-m", "weir", "--version"), capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.parametrize(
    ("code", "exit_code", "answer"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
        ("import threading; threading.Timer(0.1, print, ['late']).start()", 0, "late\n"),
        ("import atexit; atexit.register(print, 'at exit')", 0, "at exit\n"),
    ],
)
def test_ends_as_the_interpreter_does(code: str, exit_code: int, answer: str) -> None:
    done = prefork.run(python("-c", code))
    assert (done.returncode, done.stdout + done.stderr) == (exit_code, answer)


def test_an_exception_is_printed() -> None:
    done = prefork.run(python("-c", "1 / 0"))
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_arrive_and_a_process_that_runs_has_no_exit_code(number: signal.Signals) -> None:
    process = prefork.start(python("-c", "import time; time.sleep(600)"), start_new_session=True)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    assert process.wait(180) == -number
    assert process.poll() == process.returncode == -number
    process.kill()


def test_a_process_has_a_session_and_no_descriptors_of_others() -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    with subprocess.Popen(["true"], stdout=subprocess.PIPE):
        reading, writing = os.pipe()
        process = prefork.start(python("-c", code), stdout=writing, start_new_session=True)
        os.close(writing)
        with os.fdopen(reading) as output:
            assert output.read() == "True [0, 1, 2]\n"
        assert process.wait(180) == 0
