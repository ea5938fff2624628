"""Messages of jobs: saved states, reports, and invalid lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.local.harness import Rig, python, until

import weir
from weir.client import in_job
from weir.control.port import PodExit, PodExited, SaveProgress, WorkloadProgress
from weir.local.records.job_messages import read_messages
from weir.local.records.pod_records import TimeBounds
from weir.state.events import Checkpointed

SOURCE = str(Path(weir.__file__).parents[1])


def job(*lines: str) -> tuple[str, ...]:
    return python("import sys", f"sys.path.append({SOURCE!r})", "import weir", *lines)


def test_saved_states_and_reports_reach_the_pool_at_once(rig: Rig) -> None:
    pod = rig.run(
        *job(
            "weir.checkpointed(step=3)",
            "weir.report(step=4, loss=0.5, name='text', bad=float('nan'))",
            "print('ready')",
            "import time",
            "while not weir.stopping(): time.sleep(0.001)",
            "print('stopping')",
        )
    )
    until(lambda: len(rig.noted) == 2)
    assert rig.backend.pods()
    (_, saved), (who, reported) = rig.noted
    assert (saved.kind, saved.step, who) == ("checkpointed", 3, pod)
    assert (reported.step, dict(reported.values)) == (4, {"loss": 0.5})
    rig.facts += rig.backend.events()
    assert [fact.at_s for fact in rig.facts if isinstance(fact, Checkpointed)] == [saved.at_s]
    rig.backend.apply([SaveProgress("other", WorkloadProgress())])
    assert rig.journal.kept["job"].saved_s == saved.at_s
    (rig.own(pod) / "stop.json").write_text("{}")
    assert rig.exit(pod).how is PodExit.DONE
    assert "stopping" in rig.log(pod)


def test_a_state_saved_without_a_listener_comes_before_the_end(rig: Rig) -> None:
    pod = rig.run(
        *job("import os", "os.environ['WEIR_NOTES'] = ''", "weir.checkpointed(step=1)", "sys.exit(1)"),
    )
    rig.exit(pod)
    kinds = [type(fact) for fact in rig.facts if isinstance(fact, Checkpointed | PodExited)]
    assert kinds == [Checkpointed, PodExited]
    relisted = [type(fact) for fact in rig.crash() if isinstance(fact, Checkpointed | PodExited)]
    assert relisted == [Checkpointed, PodExited]


def test_outside_a_pool_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("WEIR_"):
            monkeypatch.delenv(name)
    in_job.checkpointed(step=1)
    in_job.report(step=1, loss=0.1)
    assert in_job.stopping() is False


def test_a_pool_that_is_gone_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_POD_DIRECTORY", str(tmp_path / "gone"))
    monkeypatch.setenv("WEIR_NOTES", str(tmp_path / "gone" / "notes.sock"))
    monkeypatch.setenv("WEIR_POD_ID", "1/1-0-0")
    in_job.checkpointed(step=1)
    monkeypatch.setenv("WEIR_POD_DIRECTORY", str(tmp_path))
    in_job.checkpointed(step=2)
    assert json.loads((tmp_path / "notes.jsonl").read_text())["step"] == 2


def test_importing_weir_is_cheap() -> None:
    code = "import sys, weir; weir.stopping; print([m for m in ('numpy', 'pydantic', 'httpx', 'asyncio') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_lines_that_mean_nothing_are_passed_over(tmp_path: Path) -> None:
    lines = [
        b"",
        b"nonsense",
        b"[1]",
        b'{"kind": "other", "at_s": 1}',
        b'{"kind": "report", "at_s": "now"}',
        b'{"kind": "report", "at_s": 1e999}',
        b'{"kind": "report", "at_s": 5, "step": "x", "values": {"a": 1, "b": "c", "d": null}}',
        b'{"kind": "checkpointed", "at_s": 99, "step": 2}',
        b'{"kind": "checkpointed", "at_s": 3',
    ]
    (tmp_path / "notes.jsonl").write_bytes(b"\n".join(lines))
    notes, at, _ = read_messages(str(tmp_path), 0, TimeBounds(0.0, 10.0))
    assert [(note.kind, note.at_s, note.step, dict(note.values)) for note in notes] == [
        ("report", 5.0, None, {"a": 1.0}),
        ("checkpointed", 10.0, 2, {}),
    ]
    with (tmp_path / "notes.jsonl").open("ab") as file:
        file.write(b', "step": 7}\n')
    notes, at, _ = read_messages(str(tmp_path), at, TimeBounds(0.0, 10.0))
    assert [note.step for note in notes] == [7]


def test_a_home_with_a_long_name_hears_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path / ("x" * 100) / ("y" * 100))
    try:
        rig.run(*job("weir.checkpointed(step=3)", "import time", "time.sleep(3600)"))
        until(lambda: rig.noted)
    finally:
        rig.close()


class Cuda:
    def __init__(self) -> None:
        self.limits: list[tuple[float, int]] = []

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        self.limits.append((fraction, device))


@pytest.mark.parametrize(("seen", "fraction"), [(16 << 30, 0.25), (4 << 30, 1.0), (2 << 30, 1.0)])
def test_torch_keeps_to_its_share_of_the_memory_that_it_sees(
    monkeypatch: pytest.MonkeyPatch, seen: int, fraction: float
) -> None:
    """A driver that limits the memory shows a job its share as all there is."""

    class Sees(Cuda):
        def mem_get_info(self, _device: int) -> tuple[int, int]:
            return 0, seen

    class Torch:
        cuda = Sees()

    Torch.cuda.limits = []
    monkeypatch.setitem(sys.modules, "torch", Torch())
    monkeypatch.setenv("WEIR_GPU_FRACTION", "0.250")
    monkeypatch.setenv("WEIR_GPU_MEMORY", str(4 << 30))
    monkeypatch.setattr(in_job, "_share_kept", False)
    in_job.stopping()
    assert Torch.cuda.limits == [(fraction, 0), (fraction, 1)]


def test_torch_keeps_to_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torch:
        cuda = Cuda()

    monkeypatch.setitem(sys.modules, "torch", Torch())
    monkeypatch.setenv("WEIR_GPU_FRACTION", "0.250")
    monkeypatch.setattr(in_job, "_share_kept", False)
    in_job.stopping()
    in_job.stopping()
    assert Torch.cuda.limits == [(0.25, 0), (0.25, 1)]
