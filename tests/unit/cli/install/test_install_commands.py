"""`weir install` and `weir uninstall` as a whole, and the program that they install."""

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.cli.fake_host import FakeHost, files_of

from weir.cli.install import command, plan, program, removal
from weir.cli.install.pool_processes import PoolProcesses
from weir.cli.install.steps import make_link


class Files:
    """Files that only the test knows: their owner and mode."""

    def __init__(self, **changed: tuple[int, int]) -> None:
        self._changed = {name.replace("__", "/"): found for name, found in changed.items()}

    def lstat(self, path: Path) -> os.stat_result:
        kind = stat.S_IFREG if path.suffix else stat.S_IFDIR
        uid, mode = self._changed.get(str(path), (0, 0o755))
        return os.stat_result((kind | mode, 0, 0, 1, uid, 0, 0, 0, 0, 0))


class TestProgram:
    PATH = Path("/opt/weir/lib/weir.py")

    def paths(self) -> Iterator[Path]:
        yield self.PATH

    def why(self, **changed: tuple[int, int]) -> str | None:
        return program.why_unsafe(self.paths(), Files(**changed).lstat)

    def test_program_of_root_that_everyone_reads_is_safe(self) -> None:
        assert self.why() is None
        assert self.why(__opt=(0, 0o1777)) is None, "nobody can replace root's directories in it"
        assert self.why(__opt=(0, 0o775)) is None, "only root is in its group"

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"__opt__weir": (1000, 0o755)}, "/opt/weir belongs to another user"),
            ({"__opt__weir": (0, 0o777)}, "/opt/weir can be written by others"),
            ({"__opt__weir__lib": (0, 0o700)}, "/opt/weir/lib is closed"),
            ({"__opt": (0, 0o750)}, "/opt is closed"),
        ],
    )
    def test_program_that_others_change_or_cannot_read_is_refused(
        self, changed: dict[str, tuple[int, int]], said: str
    ) -> None:
        found = self.why(**changed)
        assert found is not None
        assert found.startswith(said)
        assert "/opt/weir" in found

    def test_link_is_removed_and_replaced_by_a_newer_one(self, host: FakeHost) -> None:
        make_link(plan.PROGRAM, Path("/opt/old/bin/weir")).do(host)
        newer = make_link(plan.PROGRAM, Path("/opt/weir/bin/weir"))
        assert not newer.is_done(host)
        newer.do(host)
        assert newer.is_done(host)

    def test_fingerprint_is_the_same_for_the_same_program(self) -> None:
        assert program.fingerprint() == program.fingerprint()

    def test_fingerprint_changes_with_a_package_of_the_same_version(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def other(digest: str) -> str:
            package = SimpleNamespace(name="pkg", version="1", read_text=lambda _: f"pkg/a.py,{digest},12\n")
            monkeypatch.setattr(program, "distributions", lambda: [package])
            return program.fingerprint()

        assert other("sha256=a") == other("sha256=a") != other("sha256=b")


class TestCommands:
    """The commands as a whole, on a host of the test."""

    @pytest.fixture(autouse=True)
    def on_host(self, host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        host.version = None
        for module in (command, removal):
            monkeypatch.setattr(module, "Host", lambda: host)
        monkeypatch.setattr(command, "why_unsafe", lambda: None)
        monkeypatch.setattr(command, "program_link", lambda: None)
        monkeypatch.setattr(removal, "program_link", lambda: None)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.delenv("SUDO_USER", raising=False)

    def test_without_systemd_the_command_for_an_init_is_printed(
        self, host: FakeHost, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command.install("--price", "2.50", user="pool", home=Path("/srv/pool")) == 0
        said = capsys.readouterr().out
        assert "-I -m weir node --user pool --home /srv/pool -- --price 2.50" in said
        assert host.users["pool"]
        assert command.install() == 0
        said = capsys.readouterr().out
        assert said.startswith("Nothing to do")
        assert "--user pool --home /srv/pool -- --price 2.50" in said, "options stay"

    def test_only_root_changes_anything(
        self, host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert command.install() == 1
        assert "use sudo" in capsys.readouterr().err
        assert command.install(dry_run=True) == 0
        assert not files_of(host)
        assert not host.log

    def test_program_that_others_change_is_refused(
        self, host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(command, "why_unsafe", lambda: "/home/mia belongs to another user")
        assert command.install() == 1
        assert "/home/mia" in capsys.readouterr().err
        assert not files_of(host)

    @pytest.mark.parametrize("named", ["root", "mia"])
    def test_person_or_root_does_not_run_the_server(
        self, host: FakeHost, named: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command, "_caller", lambda: "mia")
        assert command.install(user=named) == 1
        assert not files_of(host)

    def test_group_that_is_missing_is_refused(
        self, host: FakeHost, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command.install(allow_group="gpu-users") == 1
        assert "no group gpu-users" in capsys.readouterr().err
        host.groups["gpu-users"] = set()
        assert command.install(allow_group="gpu-users") == 0

    def test_nothing_is_removed_while_jobs_run_or_a_server_serves(
        self, host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert removal.uninstall() == 1
        assert "no installation is recorded" in capsys.readouterr().err
        assert command.install() == 0
        before = files_of(host)
        running = PoolProcesses(frozenset({6, 7}), frozenset({8}), frozenset({"1"}))
        monkeypatch.setattr(removal, "pool_processes", lambda _home: running)
        assert removal.uninstall() == 1
        assert "(1 job): wait for them, or use --stop-jobs" in capsys.readouterr().err
        monkeypatch.setattr(removal, "_server_pid", lambda _directory: 4711)
        assert removal.uninstall(stop_jobs=True) == 1
        assert "kill -TERM 4711" in capsys.readouterr().err
        assert files_of(host) == before

    def test_a_server_without_jobs_is_removed_though_its_node_process_is_among_the_supervisors(
        self, host: FakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert command.install() == 0
        found = [PoolProcesses(frozenset({6}))]
        monkeypatch.setattr(
            removal, "pool_processes", lambda _home: found.pop() if found else PoolProcesses()
        )
        monkeypatch.setattr(removal, "_server_pid", lambda _directory: None)
        assert removal.uninstall() == 0
        assert set(files_of(host)) == {"/etc/weir/install.json"}

    def test_jobs_end_before_anything_is_removed(
        self, host: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command.install() == 0
        before = files_of(host)
        running = PoolProcesses(frozenset({7}), frozenset({8}))
        monkeypatch.setattr(removal, "pool_processes", lambda _home: running)
        monkeypatch.setattr(removal, "_server_pid", lambda _directory: None)
        monkeypatch.setattr(removal, "end_jobs", lambda _home, _within_s: running)
        assert removal.uninstall(stop_jobs=True) == 1
        assert "processes 7, 8" in capsys.readouterr().err
        assert files_of(host) == before
        monkeypatch.setattr(removal, "end_jobs", lambda _home, _within_s: PoolProcesses())
        assert removal.uninstall(stop_jobs=True) == 0
        assert set(files_of(host)) == {"/etc/weir/install.json"}


def test_supervisors_are_signalled_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that gets the signal ends its job; a process that has its number now is left alone."""
    from weir.cli.install import pool_processes as module

    with subprocess.Popen(["sleep", "600"]) as job, subprocess.Popen(["sleep", "600"]) as other:
        answers = [
            module.PoolProcesses(frozenset({job.pid, other.pid})),
            module.PoolProcesses(frozenset({job.pid})),
            module.PoolProcesses(frozenset({job.pid})),
        ]
        monkeypatch.setattr(
            module, "pool_processes", lambda _home: answers.pop(0) if answers else module.PoolProcesses()
        )
        assert not module.end_jobs(tmp_path, 60)
        assert job.wait(180) == -signal.SIGTERM
        assert other.poll() is None
        other.kill()
