"""Commands that keep the pool: backup, restore, audit, secrets, rotation, and the database's address."""

import io
import stat
from pathlib import Path

import pytest
from tests.unit.client.fake import Fake, Said, page, row

from weir.cli.main import main
from weir.cli.server.up_options import database_url
from weir.store.store import Store

VALUE = "hunter2"


def test_secret_is_read_from_the_input_or_a_file_and_not_printed(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake.on("PUT", "/projects/vision/secrets/KEY", {"name": "KEY"})
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{VALUE}\n"))
    assert main(["secret", "set", "KEY", "-p", "vision"]) == 0
    (tmp_path / "value").write_text(f"{VALUE}\nof two lines\n")
    assert main(["secret", "set", "KEY", "-p", "vision", "--file", str(tmp_path / "value")]) == 0
    assert [asked.body for asked in fake.asked] == [{"value": VALUE}, {"value": f"{VALUE}\nof two lines"}]
    answer = capsys.readouterr()
    assert VALUE not in answer.out + answer.err
    assert main(["secret", "set", "KEY", VALUE, "-p", "vision"]) == 2  # never on the command line
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["secret", "set", "KEY", "-p", "vision"]) == 2
    assert "is empty" in capsys.readouterr().err
    fake.on("GET", "/projects/vision/secrets", page({"name": "KEY", "user": "ada", "set_s": 1_000_000.0}))
    assert main(["secret", "list", "-p", "vision"]) == 0
    assert "KEY" in capsys.readouterr().out


def test_submission_names_secrets(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    made = row("train-1", status="running")
    fake.on("POST", "/workloads", Said(made, 201))
    fake.on("GET", "/workloads/train-1", made)
    words = ["submit", "-p", "vision", "--secret", "KEY", "--secret", "hf-token=HF_TOKEN", "--", "a"]
    assert main(words) == 0
    assert fake.asked[0].body["secrets"] == {"KEY": "KEY", "HF_TOKEN": "hf-token"}
    capsys.readouterr()
    for wrong in ("hf-token", "=X", "KEY=a b", ""):
        assert main(["submit", "-p", "vision", "--secret", wrong, "--", "a"]) == 2
        assert "write NAME=VARIABLE" in capsys.readouterr().err


def test_rotated_token_is_the_output(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"id": 7, "token": "weir_new", "user": "ada", "role": "member", "projects": ["vision"]}
    fake.on("POST", "/tokens/own/rotate", made)
    fake.on("POST", "/tokens/7/rotate", made)
    assert main(["token", "rotate"]) == 0
    assert main(["token", "rotate", "7", "--expires", "30d"]) == 0
    assert capsys.readouterr().out == "weir_new\nweir_new\n"
    assert [asked.body for asked in fake.asked] == [{}, {"expires": "30d"}]


def test_audit_log_is_a_table(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    line = {
        "at": "2026-11-22T05:00:00.000+00:00",
        "user": "mia",
        "token": 7,
        "label": "laptop",
        "status": 403,
    }
    line |= {"method": "DELETE", "path": "/api/v1/tokens/1", "outcome": "refused", "source": "127.0.0.1:5"}
    fake.on("GET", "/audit", page(line))
    assert main(["audit", "--outcome", "refused", "--user", "mia"]) == 0
    out = capsys.readouterr().out
    assert all(
        word in out for word in ("2026-11-22 05:00:00", "mia", "laptop", "refused", "/api/v1/tokens/1")
    )
    assert fake.asked[0].query == {"limit": "50", "user": "mia", "outcome": "refused"}


def test_deleting_a_project_says_what_went_with_it(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    token = {"id": 7, "user": "mia", "role": "member"}
    fake.on("DELETE", "/projects/vision", {"name": "vision", "tokens": [token], "secrets": ["KEY"]})
    assert main(["project", "delete", "vision"]) == 0
    out = capsys.readouterr().out
    assert "7 (mia)" in out
    assert "KEY" in out


def test_backup_and_restore_by_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, file = tmp_path / "home", tmp_path / "backup"
    monkeypatch.setenv("WEIR_HOME", str(home))
    monkeypatch.delenv("WEIR_DATABASE_URL", raising=False)
    assert main(["backup", str(file)]) == 1
    assert "There is no database" in capsys.readouterr().err
    Store(None, home).close()
    assert main(["backup", str(file)]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (home / "weir.db").unlink()
    assert main(["restore", str(file)]) == 0
    Store(None, home).close()
    assert main(["restore", str(tmp_path / "missing")]) == 1
    address = "postgresql+psycopg://weir:geheim@127.0.0.1:1/weir"
    assert main(["backup", str(tmp_path / "other"), "--database", address]) == 1
    answer = capsys.readouterr().err
    assert "pg_dump" in answer
    assert "geheim" not in answer


def test_address_of_the_database_comes_from_a_file_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "address"
    file.write_text("postgresql+psycopg://weir:geheim@db/weir\n")
    monkeypatch.setenv("WEIR_DATABASE_URL", "sqlite:///elsewhere.db")
    assert database_url(None, file) == "postgresql+psycopg://weir:geheim@db/weir"
    assert database_url(None, None) == "sqlite:///elsewhere.db"
    assert capsys.readouterr().err == ""
    database_url("postgresql+psycopg://weir:geheim@db/weir", None)
    answer = capsys.readouterr().err
    assert "--database-file" in answer
    assert "geheim" not in answer
    for text in ("", "two words"):
        file.write_text(text)
        with pytest.raises(ValueError, match="doesn't hold one address"):
            database_url(None, file)
    with pytest.raises(ValueError, match="can't be read"):
        database_url(None, tmp_path / "missing")
    with pytest.raises(ValueError, match="write one of them"):
        database_url("sqlite:///x", file)
