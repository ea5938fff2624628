"""`weir drain` and `weir maintenance`: what they ask of the pool, and what they say."""

from collections.abc import Callable

import pytest
from tests.unit.cli.conftest import NOW_S
from tests.unit.cli.samples import ROWS
from tests.unit.client.fake import Asked, Fake, Said, page, problem

from weir.cli.main import main

NODE = {"name": "gpu1", "devices": [], "capacity": {}, "allocated": {}}
WINDOW = {
    "name": "maintenance-1",
    "node": "gpu1",
    "gpus": [2, 3],
    "from_s": 1_003_600.0,
    "until_s": 1_007_200.0,
    "reason": "new disks",
    "user": "ada",
    "running": "evict",
    "begun": False,
}


DAY_S = 86400.0


def by_the_clock_of_the_pool(answer: object, now_s: float = NOW_S) -> Callable[[Asked], Said]:
    """Refuse a drain or a window that has to be later and would begin now."""

    def answered(asked: Asked) -> Said:
        at_s = asked.body.get("at_s", asked.body.get("from_s", now_s))
        if asked.body.get("later_only") and "after" not in asked.body and at_s <= now_s:
            return problem(409, "It would begin now.")
        return Said(answer)

    return answered


@pytest.fixture
def pool(fake: Fake) -> Fake:
    fake.on("GET", "/nodes", page(NODE))
    fake.on("GET", "/nodes/gpu1/workloads", page(ROWS[1]))
    for path in ("/nodes/gpu1/drain", "/nodes/gpu1/gpus/3/drain", "/nodes/gpu1/undrain"):
        fake.on("POST", path, by_the_clock_of_the_pool(NODE))
    fake.on("GET", "/maintenance", page(WINDOW))
    fake.on("POST", "/maintenance", by_the_clock_of_the_pool(WINDOW))
    return fake


def posted(pool: Fake) -> list[tuple[str, object]]:
    return [(asked.path, asked.body) for asked in pool.asked if asked.method == "POST"]


def changes(pool: Fake) -> list[tuple[str, object]]:
    """Return the requests that begin something now."""
    return [(path, body) for path, body in posted(pool) if not body.get("later_only")]  # type: ignore[attr-defined]


def test_a_drain_names_what_would_stop_and_changes_nothing(
    pool: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drain"]) == 1
    told = capsys.readouterr().out
    assert "notebook of grace in speech would stop: 0.5 GPUs" in told
    assert "Nothing has changed. --yes evicts 1 workload; --running finish lets it end by itself." in told
    assert posted(pool) == []


@pytest.mark.parametrize(("agreed", "code"), [(True, 0), (False, 1)])
def test_a_drain_asks_on_a_terminal(
    agreed: bool,
    code: int,
    pool: Fake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    questions: list[str] = []
    monkeypatch.setattr("weir.cli.nodes.drain.is_agreed", lambda text: (questions.append(text), agreed)[1])
    assert main(["drain"]) == code
    assert questions == ["Evict 1 workload?"]
    assert len(posted(pool)) == agreed
    assert ("Nothing has changed" in capsys.readouterr().out) != agreed


def test_a_time_that_has_passed_is_now(pool: Fake, still: float) -> None:
    assert main(["drain", "--at", "1970-01-12T14:00"]) == 1
    assert changes(pool) == []


@pytest.mark.parametrize("ahead_s", [DAY_S, -DAY_S])
@pytest.mark.parametrize(
    "words",
    [
        ["drain", "--at", "1970-01-12T14:00"],
        ["drain", "--gpu", "3", "--at", "1970-01-12T14:00", "--running", "evict"],
        ["maintenance", "add", "--from", "1970-01-12T14:00", "--until", "1970-01-12T16:00"],
    ],
)
def test_the_clock_of_the_pool_decides_if_work_is_evicted_now(
    words: list[str],
    ahead_s: float,
    pool: Fake,
    still: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("time.time", lambda: still + ahead_s)
    assert main(words) == 1
    assert "would stop: 0.5 GPUs" in capsys.readouterr().out
    assert changes(pool) == []


@pytest.mark.parametrize("ahead_s", [DAY_S, -DAY_S])
def test_the_clock_of_the_pool_decides_if_a_drain_is_later(
    ahead_s: float,
    pool: Fake,
    still: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("time.time", lambda: still + ahead_s)
    assert main(["drain", "--at", "1970-01-12T18:00"]) == 0
    assert "gpu1 will be drained" in capsys.readouterr().out
    assert changes(pool) == []
    assert main(["drain", "--at", "1970-01-12T14:00", "--yes"]) == 0
    assert "gpu1 is drained" in capsys.readouterr().out


def test_times_are_written_as_those_of_a_submission(pool: Fake, still: float) -> None:
    assert main(["drain", "--at", "18:00"]) == 0
    assert main(["drain", "--at", "+2h"]) == 0
    assert main(["maintenance", "add", "--from", "18:00", "--until", "02:00"]) == 0
    assert main(["maintenance", "add", "--from", "+1h", "--until", "+30m"]) == 0
    times = [(body.get("at_s") or body["from_s"], body.get("until_s")) for _, body in posted(pool)]  # type: ignore[attr-defined]
    six_s = 1_015_200.0
    assert times == [
        (six_s, None),
        (NOW_S + 7200, None),
        (six_s, six_s + 8 * 3600),
        (NOW_S + 3600, NOW_S + 5400),
    ]


@pytest.mark.parametrize(
    ("words", "option", "origin"),
    [
        (["drain", "--at", "soon"], "--at", "now"),
        (["maintenance", "add", "--from", "soon", "--until", "20:00"], "--from", "now"),
        (["maintenance", "add", "--from", "18:00", "--until", "soon"], "--until", "the beginning"),
    ],
)
def test_a_wrong_time_is_refused_as_that_of_a_submission(
    words: list[str], option: str, origin: str, pool: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    right = f"write 2026-12-01T18:00, 18:00 for the next such time, or +2h from {origin}"
    assert capsys.readouterr().err == f"weir: {option} 'soon' is no time: {right}.\n"


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        (["drain", "--yes"], "/nodes/gpu1/drain", {"reason": "", "running": "evict"}),
        (["drain", "gpu1", "--running", "finish"], "/nodes/gpu1/drain", {"reason": "", "running": "finish"}),
        (["nodes", "drain", "gpu1", "-y"], "/nodes/gpu1/drain", {"reason": "", "running": "evict"}),
        (
            ["drain", "--gpu", "3", "--reason", "hot"],
            "/nodes/gpu1/gpus/3/drain",
            {"reason": "hot", "running": "finish"},
        ),
        (
            ["drain", "--in", "2h"],
            "/nodes/gpu1/drain",
            {"reason": "", "running": "evict", "after": "2h", "later_only": True},
        ),
        (
            ["drain", "--at", "1970-01-12T16:00+01:00", "--running", "stop"],
            "/nodes/gpu1/drain",
            {"reason": "", "running": "stop", "at_s": 1_004_400.0, "later_only": True},
        ),
        (
            ["drain", "--at", "1970-01-12T15:00"],
            "/nodes/gpu1/drain",
            {"reason": "", "running": "evict", "at_s": 1_004_400.0, "later_only": True},
        ),
        (["undrain"], "/nodes/gpu1/undrain", {}),
    ],
)
def test_a_drain_asks_for_what_its_options_say(
    pool: Fake, still: float, words: list[str], path: str, body: object
) -> None:
    assert main(words) == 0
    assert posted(pool) == [(path, body)]


@pytest.mark.parametrize(
    "words",
    [
        ["drain", "--at", "soon"],
        ["drain", "--at", "2026-12-01", "--in", "2h"],
        ["drain", "--running", "move"],
        ["maintenance", "add", "--from", "2026-12-01T18:00", "--until", "later"],
    ],
)
def test_a_drain_that_cannot_be_asks_for_nothing(pool: Fake, words: list[str]) -> None:
    assert main(words) == 2
    assert posted(pool) == []


def test_windows_are_listed_and_announced_in_local_time(
    pool: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["maintenance"]) == 0
    told = capsys.readouterr().out
    assert "1970-01-12 14:46" in told
    assert "2,3" in told
    words = ["--from", "1970-01-12T14:47:40", "--until", "1970-01-12T15:46:40", "--gpu", "2", "--gpu", "3"]
    assert main(["maintenance", "add", *words, "--reason", "new disks"]) == 0
    body = {
        "from_s": 1_003_660.0,
        "until_s": 1_007_200.0,
        "reason": "new disks",
        "running": "evict",
        "gpus": [2, 3],
        "later_only": True,
    }
    assert posted(pool) == [("/maintenance", body)]
    assert "`weir maintenance delete maintenance-1` withdraws it" in capsys.readouterr().out


NOW = ["--from", "1970-01-12T14:00", "--until", "1970-01-12T16:00"]


@pytest.mark.parametrize("gpus", [[], ["--gpu", "2", "--gpu", "3"]])
def test_window_that_has_begun_asks_before_it_evicts(
    gpus: list[str], pool: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["maintenance", "add", *NOW, *gpus]) == 1
    told = capsys.readouterr().out
    assert told.count("notebook of grace in speech would stop: 0.5 GPUs") == 1
    assert "Nothing has changed. --yes evicts 1 workload; --running finish lets it end by itself." in told
    looked_at = [asked.query.get("gpu") for asked in pool.asked if asked.path.endswith("/workloads")]
    assert looked_at == (gpus[1::2] or [None])
    assert changes(pool) == []


@pytest.mark.parametrize("agreed", [["--yes"], ["--running", "finish"]])
def test_window_that_has_begun_is_announced_if_nothing_is_evicted_unasked(
    agreed: list[str], pool: Fake, still: float
) -> None:
    assert main(["maintenance", "add", *NOW, *agreed]) == 0
    assert [path for path, _ in posted(pool)] == ["/maintenance"]


def test_undrained_node_names_the_gpus_that_stay_drained(
    pool: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = [
        {"index": index, "model": None, "memory": 1, "allocated": 0.0, "drained": drained}
        for index, drained in enumerate([None, "drained by ada: hot"])
    ]
    pool.on("POST", "/nodes/gpu1/undrain", {**NODE, "devices": devices})
    assert main(["undrain"]) == 0
    assert capsys.readouterr().out == (
        "gpu1 is in service: workloads may start there.\n"
        "GPU 1 is still drained: `weir undrain gpu1 --gpu 1` lets workloads start on it.\n"
    )


def test_a_refused_window_is_explained_in_options(pool: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    errors = [
        {"field": "until_s", "message": "until_s: the window ends before it begins"},
        {"field": "gpus", "message": "gpus: gpu1 has no GPU 12; it has 8"},
    ]
    pool.on("POST", "/maintenance", problem(422, "The maintenance window: ...", *errors))
    assert main(["maintenance", "add", "--from", "2026-12-02", "--until", "2026-12-01", "--gpu", "12"]) == 2
    told = capsys.readouterr().err
    assert told == "weir: --until: the window ends before it begins; --gpu: gpu1 has no GPU 12; it has 8.\n"


def test_an_announced_drain_says_its_time(
    pool: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    pool.on("GET", "/maintenance", page(WINDOW, {**WINDOW, "name": "drain-gpu-3", "from_s": 1_004_400.0}))
    assert main(["drain", "--gpu", "3", "--in", "2h"]) == 0
    told = capsys.readouterr().out
    assert (
        told
        == "GPU 3 of gpu1 will be drained at 1970-01-12 15:00; `weir undrain gpu1 --gpu 3` withdraws it.\n"
    )


@pytest.mark.parametrize("words", [["maintenance", "foo"], ["drain", "gpu1", "foo"]])
def test_an_argument_too_many_is_named(
    pool: Fake, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "Unknown argument 'foo'." in capsys.readouterr().err
