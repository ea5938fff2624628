"""Pure parts of the tour: the screen, the sentences, the claims; and a job that may stop at any moment."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from weir.api.answers import EventRow, WorkloadDetail
from weir.cli.demo.checks import DemoOutcome, checks, resumptions
from weir.cli.demo.frame import DemoFrame, PendingJob, ProjectUsage, RunningJob, lines, listed
from weir.cli.demo.jobs import EVALS, GANG, NOTEBOOK, PARTS, SWEEP
from weir.cli.demo.observations import Observations
from weir.cli.demo.rendering import merged_events
from weir.cli.demo.summary import summary
from weir.cli.output.terminal import Screen, cells

EXAMPLES = Path(__file__).parents[4] / "examples"
RECLAIM = (
    " is stopped for big-run (reclaim of quota): vision holds 8 GPUs with a quota of 2, speech 0 with 4."
)

SHOWN = DemoFrame(
    at_s=71.2,
    scene="search tries two models, each on half a GPU.",
    command="weir submit -p search --gpus 0.5 -- python digits.py",
    devices=[
        [RunningJob("big-run/1", "speech", "running", step=40, steps=160, loss=0.1)],
        [
            RunningJob("eval-1", "search", "running", 0.5, 5, 130),
            RunningJob("eval-2", "search", "starting", 0.5, None, 130),
        ],
        [RunningJob("sweep-7", "vision", "stopping", step=399, steps=400, loss=0.008)],
        [RunningJob("notebook", "search", "running")],
        [],
    ],
    projects=[ProjectUsage("vision", 8, 2), ProjectUsage("speech", 0, 4), ProjectUsage("search", 1.5, 2)],
    waiting=[PendingJob(["sweep-1", "sweep-2", "sweep-3"], "no capacity now: of 2 full nodes 2 by gpu")],
    sentences=[(17.4, f"sweep-1{RECLAIM}"), (17.7, "eval-1 starts on box, device 5.")],
)
AT_80 = """\
GPUs  vision 8 (quota 2)   speech 0 (quota 4)   search 1.5 (quota 2)        1:11

 0 big-run/1 ━━━━━━━━━━━──────────────────────────────────  40/160  loss 0.100
 1 eval-1 ½  ━────────────────   5/130     eval-2 ½  ───────────────── starts
 2 sweep-7   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 399/400  saves
 3 notebook  ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ open
 4 free

sweep-1, sweep-2 and 1 other wait: no capacity now: of 2 full nodes 2 by gpu



search tries two models, each on half a GPU.
$ weir submit -p search --gpus 0.5 -- python digits.py
 17.4s  sweep-1 is stopped for big-run (reclaim of quota): vision holds 8 GPUs
        with a quota of 2, speech 0 with 4.
 17.7s  eval-1 starts on box, device 5.
"""


def screen(width: int, *, colour: bool = False) -> Screen:
    return Screen(width, 24, colour=colour)


def test_the_screen_at_80() -> None:
    painted = "\n".join(line.rstrip() for line in lines(SHOWN, screen(80)))
    assert painted.rstrip("\n") + "\n" == AT_80


@pytest.mark.parametrize("width", [40, 60, 80, 120, 300])
def test_the_screen_fits_and_keeps_its_height(width: int) -> None:
    here = screen(width)
    shown = lines(SHOWN, here)
    if width >= 80:
        assert max(map(cells, shown)) <= width
    many = replace(SHOWN, sentences=SHOWN.sentences * 9, waiting=list(SHOWN.waiting) * 5)
    assert len(lines(many, here)) == len(shown) == len(lines(replace(SHOWN, sentences=[], waiting=[]), here))


def test_colours_are_used_only_where_there_are_any() -> None:
    assert not any("\x1b" in line for line in lines(SHOWN, screen(80)))
    assert any("\x1b[35m" in line for line in lines(SHOWN, screen(80, colour=True)))


def test_names_in_a_few_words() -> None:
    assert [listed(["a", "b", "c", "d"][:many]) for many in (1, 2, 3, 4)] == [
        "a",
        "a and b",
        "a, b and 1 other",
        "a, b and 2 others",
    ]


# The engine's sentences


def event(number: int, at_s: float, kind: str, name: str, rest: str, **numbers: Any) -> EventRow:
    sentence = rest if rest.startswith("Capacity") else f"{name}{rest}"
    return EventRow(id=number, at_s=at_s, kind=kind, workload=name, sentence=sentence, numbers=numbers)


def test_what_is_said_of_several_in_the_same_words_is_said_once() -> None:
    rows = [
        event(1, 12.0, "nominated", "big-run", "Capacity is being freed for big-run: a, b must stop."),
        event(2, 12.0, "stopping", "a", RECLAIM),
        event(3, 12.0, "stopping", "b", RECLAIM),
        event(4, 12.5, "stopped", "a", " has stopped and waits again."),
        event(5, 13.0, "stopping", "notebook", " was withdrawn."),
        event(6, 13.0, "ended", "notebook", " was withdrawn."),
    ]
    assert merged_events(rows, 10.0) == [
        (2.0, "Capacity is being freed for big-run: a, b must stop."),
        (2.0, "a and b" + RECLAIM.replace(" is ", " are ")),
        (3.0, "notebook was withdrawn."),
    ]


# The claims


def detail(name: str, status: str = "succeeded", **more: Any) -> WorkloadDetail:
    return WorkloadDetail(
        uid=1,
        name=name,
        project=PARTS[name].project,
        user="ada",
        type="train",
        status=status,
        priority=50,
        preemptible=True,
        devices=1,
        pods=1,
        pods_running=0,
        submitted_s=20.0,
        **more,
    )


def done(loss: float) -> str:
    return f"done after step 400: loss {loss!r}, weights 0123456789ab"


@pytest.fixture
def facts() -> DemoOutcome:
    """Return the facts of a successful tour."""
    rows: list[EventRow] = []

    def happens(at_s: float, kind: str, name: str, **numbers: Any) -> None:
        rows.append(event(len(rows) + 1, at_s, kind, name, f" {kind}.", **numbers))

    for part in SWEEP:
        happens(10.0, "started", part.name, pods=1)
    for asker, gave, at_s in (
        (GANG, SWEEP[:4], 20.1),
        (EVALS[0], SWEEP[4:5], 30.0),
        (NOTEBOOK, SWEEP[5:6], 40.0),
    ):
        for part in gave:
            happens(at_s, "stopping", part.name, by=asker.name, rule="reclaim_quota")
        happens(at_s + 0.5, "started", asker.name, pods=4 if asker is GANG else 1)
    for part in SWEEP[:6]:
        happens(50.0, "started", part.name, pods=1)
    details = {name: detail(name) for name in PARTS}
    details[NOTEBOOK.name] = detail(NOTEBOOK.name, "stopped")
    seen = Observations(
        details, rows, most_held={"vision": 8.0}, together={frozenset(part.name for part in EVALS)}
    )
    logs = {
        part.name: [
            "begins at step 0\nstops at step 97, which is saved\n",
            f"goes on from step 97\n{done(0.5)}\n",
        ]
        for part in SWEEP[:6]
    }
    saved = {part.name: [20.0] for part in SWEEP[:4]} | {SWEEP[4].name: [29.5], SWEEP[5].name: [29.0]}
    return DemoOutcome(
        seen, logs, saved, [20.63, 20.6, 20.61, 20.62], {part.name: done(0.5) for part in SWEEP[:6]}
    )


def false_of(facts: DemoOutcome) -> list[int]:
    return [at for at, claim in enumerate(checks(facts)) if not claim.holds]


def test_all_claims_hold_when_they_are_true(facts: DemoOutcome) -> None:
    assert false_of(facts) == []
    assert (
        "0.6 s after it was submitted: 4 jobs stopped for it (reclaim of quota)" in checks(facts)[1].sentence
    )
    assert "within 30 ms" in checks(facts)[2].sentence
    assert "0.1 to 0.1 s since their checkpoints, against 10.1 to 10.1 s" in checks(facts)[3].sentence
    assert "ahead of 6 jobs" in checks(facts)[5].sentence


def test_no_claim_holds_of_nothing() -> None:
    assert false_of(DemoOutcome(Observations())) == list(range(9))


def test_each_claim_is_held_against_what_was_seen(facts: DemoOutcome) -> None:
    first = SWEEP[0].name
    facts.seen.most_held["vision"] = 7.0
    assert false_of(facts) == [0]
    facts.seen.most_held["vision"] = 8.0
    facts.seen.together.clear()
    assert false_of(facts) == [4]
    facts.seen.together.add(frozenset({"eval-1", "eval-2"}))
    facts = replace(facts, alone={**facts.alone, first: done(0.25)})
    assert false_of(facts) == [7]
    alone, saved = {**facts.alone, first: done(0.5)}, {**facts.saved_s, first: [], SWEEP[7].name: [20.05]}
    assert false_of(replace(facts, alone=alone, saved_s=saved)) == [3]


def test_going_on_at_another_step_is_noticed(facts: DemoOutcome) -> None:
    name = SWEEP[1].name
    facts = replace(
        facts, logs={**facts.logs, name: ["stops at step 97,", f"goes on from step 96\n{done(0.5)}"]}
    )
    assert false_of(facts) == [6]
    assert resumptions(["stops at step 9,", "goes on from step 9\nstops at step 12,"]) == [(9, 9), (12, None)]
    assert resumptions(["stops at step 9,", "", "goes on from step 9"]) == [(9, 9)], "stopped as it began"
    assert resumptions(["stops at step 9,", "", ""]) == [(9, None)]
    ended = f"goes on from step 400\n{done(0.5)}"
    assert resumptions([done(0.5), ended]) == [(400, 400)], "stopped just after its last step"
    assert resumptions(["stops at step 9,", "goes on from step 9\n" + done(0.5)]) == [(9, 9)]


def test_the_end_says_what_did_not_come_true_and_how_to_go_on(facts: DemoOutcome) -> None:
    good = "\n".join(summary(facts, checks(facts), screen(80)))
    assert "All of it came true" in good
    assert "sweep-1" in good
    assert "at step 97" in good
    assert "weir up" in good
    assert all(cells(line) <= 80 for line in good.split("\n"))
    facts.seen.together.clear()
    bad = "\n".join(summary(facts, checks(facts), screen(80)))
    assert "1 of 9 did not come true" in bad
    assert "✗ eval-1 and eval-2 never ran on one device at once." in bad


# The job


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits", EXAMPLES / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits"] = module
    spec.loader.exec_module(module)
    return module


def run(digits: ModuleType, capsys: pytest.CaptureFixture[str], kept: Path, steps: int) -> str:
    digits.train(7, steps, 10_000, 0.0, kept)
    return capsys.readouterr().out


def test_a_stopped_job_ends_as_without_the_stop(
    digits: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = run(digits, capsys, tmp_path / "one.npz", 12)
    asked = iter([False] * 4 + [True])
    with monkeypatch.context() as patched:
        patched.setattr("weir.client.in_job.stopping", lambda: next(asked))
        assert "stops at step 5" in run(digits, capsys, tmp_path / "other.npz", 12)
    resumed = run(digits, capsys, tmp_path / "other.npz", 12)
    assert resumed.startswith("goes on from step 5\n")
    assert resumed.split("\n")[1:] == undisturbed.split("\n")[1:]
    assert {path.name for path in tmp_path.iterdir()} == {"one.npz", "other.npz"}


def test_a_job_stopped_after_its_last_step_ends_as_before(
    digits: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = run(digits, capsys, tmp_path / "one.npz", 12)
    again = run(digits, capsys, tmp_path / "one.npz", 12)
    assert again.startswith("goes on from step 12\n")
    assert again.split("\n")[1:] == undisturbed.split("\n")[1:]
