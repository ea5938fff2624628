"""Output of a pod: the kept parts, and reading on while the middle is freed."""

from pathlib import Path

from tests.unit.local.harness import Rig, python

from weir.local.server.output.pod_logs import LogFollower, LogStep, PodLog
from weir.local.supervisor.output import OutputFile, read_on, tail_of

MOST = 1 << 20
LINES = 400_000


def whole(path: Path) -> bytes:
    text, position = b"", 0
    while True:
        block, position = read_on(str(path), position, 1 << 16)
        if not block:
            return text
        text += block


def held(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % at for at in range(LINES)))
    assert held(path) > 4 * MOST
    with path.open("rb+") as file:
        OutputFile(file.fileno(), MOST).look(last=True)
    assert held(path) <= MOST
    text = whole(path)
    assert text.startswith(b"line 0\nline 1\n")
    assert text.endswith(b"line %d\n" % (LINES - 1))
    assert text.count(b"bytes of output were left out here") == 1
    assert b"\0" not in text
    size = path.stat().st_size
    position = tail_of(str(path), 3)
    assert read_on(str(path), position, 1 << 16)[0].splitlines() == [
        b"line %d" % at for at in range(LINES - 3, LINES)
    ]
    assert 0 < tail_of(str(path), LINES) < size, "lines that were left out aren't looked for"
    with path.open("ab") as file:
        file.write(b"more\n")
    assert read_on(str(path), size, 1 << 16) == (b"more\n", size + 5), "places stay what they are"


def test_what_is_small_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (MOST // 2))
    with path.open("rb+") as file:
        OutputFile(file.fileno(), MOST).look(last=True)
    assert whole(path) == b"x" * (MOST // 2)
    assert read_on(str(path), 10 * MOST, 10)[0] == b"x" * 10, "it was begun anew"
    assert OutputFile(-1, 0).due_s() is None


def test_a_job_that_never_stops_writing_does_not_fill_the_disk(rig: Rig) -> None:
    rig.backend._log_max = MOST
    pod = rig.run(
        *python(
            "import sys, time",
            "for _ in range(60): sys.stdout.write('y' * 300_000); sys.stdout.flush(); time.sleep(0.05)",
            "print('end')",
        )
    )
    rig.exit(pod)
    path = Path(rig.backend.home.own(1, 1, 0, 0)) / "log"
    assert path.stat().st_size > 8 * MOST
    assert held(path) <= MOST
    assert whole(path).endswith(b"end\n")
    assert PodLog(rig.home, 1, (0, 0)).starts() == [1]


async def test_an_output_that_grows_while_it_is_read_is_read_to_where_it_was(rig: Rig) -> None:
    pod = rig.run("sh", "-c", "echo first; echo second")
    rig.exit(pod)
    log = PodLog(rig.home, 1, (0, 0))
    text = b""
    async for block in log.text(None, None):
        text += block
        with log.path(1).open("ab") as file:
            file.write(b"later\n")
    assert text == b"first\nsecond\n"


def test_who_follows_from_before_the_first_start_reads_every_start(tmp_path: Path) -> None:
    log = PodLog(tmp_path, 1, (0, 0))
    early, late = LogFollower(log, None, None), LogFollower(log, None, None)
    assert early.step([]) == LogStep([], has_more=False)
    for start in (1, 2):
        log.path(start).parent.mkdir(parents=True)
        log.path(start).write_bytes(b"run %d\n" % start)
    assert [early.step([1, 2]).blocks for _ in range(3)] == [[b"run 1\n"], [], [b"run 2\n"]]
    assert late.step([1, 2]).blocks == [b"run 2\n"]
