"""`weir exec`: exit codes of a program that can't be run are those of a shell."""

from pathlib import Path

import pytest

from weir.cli.options.mistakes import CommandError
from weir.cli.sessions.exec import run_beside
from weir.cli.sessions.pod_entry import EnteredLeader


@pytest.mark.parametrize(
    ("program", "code", "sentence"),
    [
        ("no-such-program", 127, "no-such-program can't be run: No such file or directory"),
        ("./text", 126, "./text can't be run: Permission denied"),
    ],
)
def test_program_that_cannot_be_run_has_the_exit_code_of_a_shell(
    program: str, code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no program")
    leader = EnteredLeader(1, 1, {"PATH": "/usr/bin"}, str(tmp_path), ends_with_it=True)
    with pytest.raises(CommandError, match="can't be run") as refused:
        run_beside(leader, [program], None)
    assert (refused.value.code, str(refused.value)) == (code, sentence)


def test_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    leader = EnteredLeader(1, 1, {"PATH": "/usr/bin"}, str(tmp_path / "gone"), ends_with_it=True)
    with pytest.raises(CommandError, match="gone can't be entered: No such file or directory"):
        run_beside(leader, ["true"], None)
