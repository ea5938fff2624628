"""Sessions for OpenSSH: their configurations, and words that could be more than words."""

import errno
import grp
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.client.fake import Fake, page, problem, queue

from weir.cli.main import main
from weir.cli.sessions import commands, pipe, ssh_config, ssh_files
from weir.cli.sessions.pod_entry import EnteredLeader, EntryRefused, first_process
from weir.local.containers import enter
from weir.local.records import pod_files

TAR = ("--", "tar", "c", "a b")


def test_variables_reach_sshd_as_they_are(tmp_path: Path) -> None:
    hostile = {
        "A": 'x" PermitRootLogin=yes "',
        "B": "back\\slash 'quote'",
        "C": "two\nForceCommand id",
        "TERM": "x",
    }
    text = ssh_files.sshd_config(tmp_path, hostile)
    assert 'SetEnv "A=x\\" PermitRootLogin=yes \\"" "B=back\\\\slash \'quote\'"\n' in text
    assert "ForceCommand" not in text
    assert text.count("SetEnv") == 1, "sshd reads the first alone"


@pytest.mark.parametrize("name", ["a b", "-oProxyCommand=id", "x/y", "a'b", "ä", "$(id)"])
def test_a_name_that_is_no_host_is_refused(name: str) -> None:
    with pytest.raises(EntryRefused, match="can't be a host of ssh"):
        ssh_files.host_alias(name)


def test_the_configuration_is_one_that_ssh_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "with space"))
    monkeypatch.setenv("WEIR_HOME", "/lab/it's here")
    monkeypatch.delenv("WEIR_URL", raising=False)
    file = tmp_path / "config"
    file.write_text(ssh_config.render(["weir-dev"], "mia"))
    done = subprocess.run(["ssh", "-G", "-F", file, "weir-dev"], capture_output=True, text=True, check=True)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert found["identityfile"] == f"{tmp_path}/with space/weir/sessions/%n/client_key"
    assert found["stricthostkeychecking"] == "true"
    assert """'WEIR_HOME=/lab/it'"'"'s here'""" in found["proxycommand"]
    assert found["proxycommand"].endswith("session pipe '%n'")


def test_a_percent_sign_in_a_path_means_itself_to_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_HOME", str(tmp_path / "a%20b"))
    file = tmp_path / "config"
    monkeypatch.setattr("sys.executable", "/bin/true")
    file.write_text(ssh_config.render(["weir-dev"], "mia"))
    words = ["ssh", "-F", str(file), "weir-dev", "true"]
    answer = subprocess.run(
        words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=180, check=False
    )
    assert "percent_expand" not in answer.stderr
    assert "UNKNOWN port 65535" in answer.stderr, "its command was begun, and ended or closed its input"


def test_the_include_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / ".ssh" / "config"
    own.parent.mkdir()
    own.write_text("Host else\n")
    own.chmod(0o644)
    path = ssh_config.write("Host weir-*\n")
    answers = _Answers(["", "n\n", "y\n"])
    monkeypatch.setattr("sys.stdin", answers)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ssh_config.offer_inclusion(path)
    assert own.read_text() == "Host else\n", "without an answer nothing changes"
    ssh_config.offer_inclusion(path)
    ssh_config.offer_inclusion(path)
    assert own.read_text() == "Host else\n"
    assert answers.left == ["y\n"], "a refusal holds"
    (path.parent / "ssh_config.not-included").unlink()
    ssh_config.offer_inclusion(path)
    ssh_config.offer_inclusion(path)
    assert own.read_text() == f"Include {path}\nHost else\n"
    assert own.stat().st_mode & 0o777 == 0o644
    assert "Add it? [Y/n]" in capsys.readouterr().err


def test_a_session_without_a_project_is_refused_in_one_sentence(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads/dev", problem(404, "There is no workload dev."))
    fake.on("GET", "/projects", page(queue("nlp"), queue("vision")))
    assert main(["shell", "dev"]) == 2
    sentence = "there is no workload dev, and no project is named: write -p PROJECT; yours are nlp, vision."
    assert capsys.readouterr().err == f"weir: {sentence}\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["shell", "--", "true"], "shell-ada"),
        (["shell", "dev", "--", "true"], "dev"),
        (["ssh", "--gpus", "1", "--", "true"], "shell-ada"),
        (["jupyter", "--", "--collaborative"], "jupyter-ada"),
        (["code", "--gpus", "1", "dev", "--", "--locale"], "dev"),
    ],
)
def test_a_word_after_the_dashes_is_no_name(
    words: list[str],
    name: str,
    fake: Fake,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake.on("GET", "/whoami", {"user": "ada", "signed_in_by": "token", "is_admin": False})
    fake.on("GET", "/projects", page(queue("nlp"), queue("vision")))
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    assert main(words) == 2
    assert [each.path for each in fake.asked if "/workloads/" in each.path] == [f"/workloads/{name}"]
    assert "no project is named" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "typed", "seen", "option"),
    [
        (["dev"], True, False, "-t"),
        (["dev", *TAR], True, True, "-t"),
        (["dev", *TAR], True, False, ""),
        (["", *TAR], False, True, ""),
    ],
)
def test_a_command_whose_output_goes_on_has_no_terminal(
    words: list[str], typed: bool, seen: bool, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal would change the ends of its lines."""
    pool = SimpleNamespace(address=SimpleNamespace(ssh="pool"))
    detail = SimpleNamespace(directory="/work", name="dev", image=None)
    run: list[tuple[str, ...]] = []
    monkeypatch.setattr(commands, "find", lambda: SimpleNamespace(is_cluster=False))
    monkeypatch.setattr(commands, "in_session", lambda *asked: asked[-1](pool, detail))
    monkeypatch.setattr(commands, "_become_ssh", lambda _pool, _detail, *rest: run.append(rest) or 0)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: typed))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: seen, flush=lambda: None))
    assert main(["shell", *words]) == 0
    exec_ = "tar c 'a b'" if len(words) > 1 else '"${SHELL:-/bin/sh}"'
    assert run == [(option, f"cd /work; exec {exec_}")]


def test_a_command_beside_no_workload_is_refused(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "--", "true"]) == 2
    assert not fake.asked
    assert "write it before --: weir exec NAME -- COMMAND" in capsys.readouterr().err


class _Answers:
    """A terminal with the answers of a person."""

    def __init__(self, left: list[str]) -> None:
        self.left = left

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.left.pop(0)


@pytest.mark.parametrize(
    "user",
    ["root\n  ProxyCommand touch /tmp/x", "x';touch /tmp/x;'", "-oProxyCommand=x", "%h", "\x1b[2J", ""],
)
def test_an_account_that_a_container_says_adds_nothing_to_the_configuration(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = ssh_files.remote_keys() / "weir-dev" / "user"
    kept.parent.mkdir(parents=True)
    with pytest.raises(EntryRefused, match="is no account of ssh") as refused:
        ssh_files.keep_user("dev", user)
    assert str(refused.value).isprintable()
    kept.write_text(user)  # by a version that kept whatever was said
    assert ssh_files.user_of("dev") == "root"
    with pytest.raises(EntryRefused):
        ssh_config.render(["weir-dev"], user)


def test_what_a_container_says_does_not_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> int:
        raise EntryRefused("the command can't be started in the container: \x1b]0;mine\x07\x1b[2J", 126)

    monkeypatch.setattr(commands, "find", lambda: SimpleNamespace(is_cluster=False))
    monkeypatch.setattr(commands, "in_session", refused)
    assert main(["shell", "dev"]) == 126
    assert capsys.readouterr().err == (
        "weir: the command can't be started in the container: \\x1b]0;mine\\x07\\x1b[2J.\n"
    )


@pytest.mark.parametrize(
    ("uid", "other_group", "has_terminals"), [(1000, 0, True), (1000, 1, False), (0, 1, True)]
)
def test_terminals_without_the_group_of_sshd_are_named(
    monkeypatch: pytest.MonkeyPatch, uid: int, other_group: int, has_terminals: bool
) -> None:
    ends = os.openpty()
    group = os.fstat(ends[1]).st_gid + other_group
    for end in ends:
        os.close(end)
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(grp, "getgrnam", lambda _: SimpleNamespace(gr_gid=group))
    why = pipe.no_terminals()
    assert (why == "") == has_terminals
    if why:
        assert why.endswith(f"`sudo mount -o remount,gid={group},mode=620 /dev/pts`")


def leader(pid: int, ticks: int | None = None) -> EnteredLeader:
    """Return the first process of a pod, by default one that began when the process of this number did."""
    began = pod_files.started_ticks(pid) if ticks is None else ticks
    return EnteredLeader(pid, began or 0, {}, "/", ends_with_it=True)


def test_a_session_awaits_a_container_that_is_about_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [enter.NotEntered("no image yet"), enter.NotEntered("not started yet"), None]

    def looked(_: object) -> int:
        if (answer := answers.pop(0)) is not None:
            raise answer
        return 77

    monkeypatch.setattr(enter, "first_process", looked)
    assert first_process(leader(os.getpid()), awaited=True) == 77
    assert capsys.readouterr().err.count("once it has its image") == 1


def test_a_container_that_ended_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(_: object) -> int:
        raise enter.NotEntered("its container is over")

    monkeypatch.setattr(enter, "first_process", looked)
    over = subprocess.Popen(["true"])
    over.wait()
    with pytest.raises(EntryRefused, match="`weir describe` and `weir logs` say why"):
        first_process(leader(over.pid), awaited=True)
    with pytest.raises(EntryRefused, match="`weir describe` and `weir logs` say why"):
        first_process(leader(os.getpid(), ticks=1), awaited=True)  # its number is used again
    with pytest.raises(EntryRefused, match="its container is over"):
        first_process(leader(os.getpid()))


def test_a_configuration_that_cant_be_written_names_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file" / "config"))
    monkeypatch.setattr(ssh_config, "configuration", lambda _pool: "")
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/ssh")
    pool = SimpleNamespace(address=SimpleNamespace(ssh="gpu1"))
    with pytest.raises(EntryRefused, match=r"set XDG_CONFIG_HOME to .*, or use `weir shell dev`"):
        commands._become_ssh(pool, SimpleNamespace(name="dev", image=None), "")  # type: ignore[arg-type]

    def full(_text: str) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ssh_config, "write", full)
    with pytest.raises(EntryRefused, match=r"^/.*/config/weir/ssh_config: No space left on device: "):
        commands._become_ssh(pool, SimpleNamespace(name="dev", image=None), "")  # type: ignore[arg-type]
