"""Job scripts: directives become fields of a submission, and the script its command."""

from pathlib import Path

import pytest
from tests.unit.client.fake import Fake

from weir.cli.main import main
from weir.cli.submissions.job_script import ScriptError, is_script, read_script

FILE = Path("/home/me/train.sh")
SCRIPT = """#!/bin/bash -l
#WEIR --project vision --gpus 2   # of each pod
#WEIR --max-runtime 2h --after-ok "prepare data"
#
# the data are prepared

#WEIR --env SEED=3 --name train

echo training
#WEIR --gpus 4
"""


def test_directives_become_fields_up_to_the_first_command() -> None:
    found = read_script(SCRIPT, FILE, ["--lr", "1"])
    assert found == {
        "project": "vision",
        "gpus": "2",
        "max_runtime": "2h",
        "after_ok": ["prepare data"],
        "env": {"SEED": "3"},
        "name": "train",
        "command": ["/bin/bash", "-l", "-c", SCRIPT, "train.sh", "--lr", "1"],
    }


@pytest.mark.parametrize(
    ("first", "command"),
    [
        ("#!/bin/sh", ["/bin/sh", "-c", "#!/bin/sh\n", "train.sh"]),
        ("#!/usr/bin/env bash", ["/usr/bin/env", "bash", "-c", "#!/usr/bin/env bash\n", "train.sh"]),
        (
            "#!/usr/bin/env -S bash -e",
            ["/usr/bin/env", "-S", "bash", "-e", "-c", "#!/usr/bin/env -S bash -e\n", "train.sh"],
        ),
        ("#!/usr/bin/env python3", ["/usr/bin/env", "python3", "/home/me/train.sh"]),
        ("#! /opt/perl -w", ["/opt/perl", "-w", "/home/me/train.sh"]),
    ],
)
def test_shells_get_the_text_and_others_the_path(first: str, command: list[str]) -> None:
    assert read_script(first + "\n", FILE, [])["command"] == command


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("#!\n", "train.sh:1: names no interpreter"),
        ("#!/bin/sh\n#WEIR --gpu 2\n", "train.sh:2: #WEIR: "),
        ("#!/bin/sh\n#\n#WEIR --name 'a\n", "train.sh:3: #WEIR: No closing quotation"),
        ("#!/bin/sh\n#WEIR -- rm\n", "train.sh:2: #WEIR: "),
        ("#!/bin/sh\n#WEIR --begin soon\n", "train.sh:2: #WEIR: --begin 'soon' is no time"),
        ("#!/bin/sh\n" + "#" * 131_072, "train.sh: is larger than 131071 bytes: write `-- sh train.sh`"),
    ],
)
def test_mistakes_name_the_line(text: str, sentence: str) -> None:
    with pytest.raises(ScriptError) as refused:
        read_script(text, FILE, [])
    assert sentence in str(refused.value)


def test_yaml_is_no_script() -> None:
    assert not is_script("# a comment\nproject: vision\n")


def test_script_with_directives_is_no_command(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directives would be passed over without a word."""
    monkeypatch.chdir(tmp_path)
    Path("train.sh").write_text("#!/bin/sh\n#\n#WEIR --gpus 2\necho\n")
    assert main(["submit", "-p", "vision", "train.sh", "1"]) == 2
    assert not fake.asked
    assert capsys.readouterr().err == (
        "weir: train.sh: has #WEIR lines, which only --file reads: "
        "write `weir submit -f train.sh`, with its arguments after --.\n"
    )


@pytest.mark.parametrize("text", [b"#!/bin/sh\necho '#WEIR'\n", b"\x7fELF\xff", b"#WEIR --gpus 2\n"])
def test_other_programs_are_commands(fake: Fake, tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "train"
    file.write_bytes(text)
    main(["submit", "-p", "vision", "--no-inherit", "--", str(file)])
    assert fake.asked[0].body["command"] == [str(file)]


def test_options_override_directives(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.sh"
    file.write_text("#!/bin/sh\n#WEIR -p vision --gpus 2 -e A=1 -e B=1\necho $1\n")
    main(["submit", "-f", str(file), "--gpus", "1", "-e", "B=2", "--no-inherit", "--", "x"])
    body = fake.asked[0].body
    assert (body["project"], body["pods"]) == ("vision", [{"gpus": "1"}])
    assert body["env"] == {"A": "1", "B": "2"}
    assert body["command"][:2] == ["/bin/sh", "-c"]
    assert body["command"][3:] == ["train.sh", "x"]
    capsys.readouterr()


def test_wrong_directive_submits_nothing(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.sh"
    file.write_text("#!/bin/sh\n#WEIR -p vision --gpus two --nonsense\n")
    assert main(["submit", "-f", str(file)]) == 2
    assert "train.sh:2: #WEIR: " in capsys.readouterr().err
    assert fake.asked == []
