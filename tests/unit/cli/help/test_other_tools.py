"""Command lines of other tools: the answer names the command of Weir."""

import shlex

import pytest
from tests.unit.client.fake import Fake

from weir import __version__
from weir.cli.main import main


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("srun python train.py", "weir submit -p PROJECT --gpus 1 -- python train.py"),
        ("srun --gres=gpu:1 python train.py", "weir submit -p PROJECT --gpus 1 -- COMMAND"),
        ("srun -A vision --pty bash", "weir shell -p vision --gpus 1"),
        ("scontrol show job 7", "weir describe 7"),
        ("scontrol show job=7", "weir describe 7"),
        ("scontrol show nodes", "weir nodes"),
        ("scontrol show config", "weir status"),
        ("scontrol hold 7", "weir suspend 7"),
        ("scontrol update JobId=7 Priority=60", "weir priority 7 60"),
        ("scontrol update NodeName=box State=DRAIN Reason=fan", "weir drain box"),
        ("scontrol update NodeName=box State=RESUME", "weir undrain box"),
        ("scontrol delete ReservationName=fans", "weir maintenance delete fans"),
        ("sacctmgr add user mia account=vision", "weir project members add vision mia"),
        ("sacctmgr modify account vision set fairshare=3", "weir project set vision --gpus 4"),
        ("sacctmgr modify user where name=mia", "weir project members add PROJECT mia --role lead"),
        ("sreport cluster utilization", "weir report usage"),
        ("sprio -j 7", "weir why 7"),
        ("kubectl get pods -n team", "weir list"),
        ("get node box", "weir nodes show box"),
        ("describe job a", "weir describe a"),
        ("describe node box", "weir nodes show box"),
        ("list projects", "weir project list"),
        ("list project vision", "weir project show vision"),
        ("create -f job.yaml", "weir submit -f job.yaml"),
        ("cordon box", "weir drain box"),
        ("port-forward a 8888", "ssh -L 8888:localhost:8888 weir-a"),
        (
            "runai submit a -p vision -g 1 -- python train.py",
            "weir submit -p vision --gpus 1 -- python train.py",
        ),
        ("runai describe job a", "weir describe a"),
        ("training pytorch logs a", "weir logs a"),
        ("workspace bash a", "weir shell a"),
        ("runai config project vision", "export WEIR_PROJECT=vision"),
        ("top node", "weir top"),
        ("kueuectl stop workload a", "weir suspend a"),
        ("kueuectl list localqueue", "weir project list"),
        ("quota set vision 4", "weir project set vision --gpus 4"),
        ("user add mia", "weir project members add PROJECT mia"),
        ("delete queue vision", "weir project delete vision"),
        ("rm 'a b'", "weir stop 'a b'"),
        ("project vision set --gpus 3", "weir project set vision --gpus 3"),
        ("project describe vision", "weir project show vision"),
        ("project members vision add mia", "weir project members add vision mia"),
        ("nodes box", "weir nodes show box"),
        ("nodes box drain", "weir nodes drain box"),
        ("sweep digits stop", "weir sweep stop digits"),
        ("sweep shwo digits", "weir sweep show digits"),
        ("sweep delet digits --checkpoints", "weir sweep delete digits --checkpoints"),
        ("sweep lst", "weir sweep list"),
        ("schedule describe nightly", "weir schedule show nightly"),
        ("secret get KEY", "weir secret list"),
    ],
)
def test_command_of_another_tool_is_answered(
    words: str, right: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(words)) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.endswith(f"is no command: write `{right}`.\n")
    assert fake.asked == []


@pytest.mark.parametrize("words", ["sweep show", "sweep stop", "schedule show", "schedule delete"])
def test_a_name_may_be_behind_two_dashes(words: str, fake: Fake) -> None:
    main([*words.split(), "--", "nightly"])
    assert any("/nightly" in asked.path for asked in fake.asked)


def test_first_word_of_a_command_may_be_like_an_action(
    capsys: pytest.CaptureFixture[str], fake: Fake
) -> None:
    assert main(["sweep", "stop.sh", "--param=lr=1..2"]) == 2
    assert "rungs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "before"),
    [
        ("submit -p vision train.sh -- a", "train.sh"),
        ("submit python 'a b' --gpus 1 -- a", "python 'a b'"),
        ("sweep vision --param x=int:1..2 --rungs 1 -- a", "vision"),
        ("schedule add --cron @daily --name nightly vision -- a", "vision"),
    ],
)
def test_words_before_the_command_do_not_become_its_first_words(
    words: str, before: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(words)) == 2
    assert capsys.readouterr().err == f"weir: {before} is before --: write the whole command after it.\n"
    assert fake.asked == []


@pytest.mark.parametrize("words", ["sacct -j 7", "squeue --jobs=7"])
def test_list_of_one_job_is_answered_with_its_details(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert "write `weir describe 7`." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("squeue --start", "weir why NAME"),
        ("squeue -j 7 --start", "weir why 7"),
        ("squeue --start --jobs=7", "weir why 7"),
    ],
)
def test_expected_starts_are_answered_with_why(
    words: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    answer = f"weir: `{right}` says why a workload is pending, and what would let it start.\n"
    assert capsys.readouterr().err == answer


@pytest.mark.parametrize("words", ["nonsense", "nonsense job", "schedule play nightly"])
def test_other_words_are_no_commands_of_other_tools(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert "Unknown command" in capsys.readouterr().err


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "project", "set"]) == 0
    assert capsys.readouterr().out.startswith("Usage: weir project set ")
    assert main(["help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: weir COMMAND")
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == __version__
