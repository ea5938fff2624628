"""A stand-in of the kubelet that runs the containers of trials as real processes, with their messages and volumes."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.weir import ROOT

SCRIPT = """\
import os, sys
from pathlib import Path
import weir

steps, way, lr = int(sys.argv[1]), sys.argv[2], float(os.environ["WEIR_PARAM_LR"])
directory = os.environ.get("WEIR_CHECKPOINT_DIR")
saved = Path(directory or os.devnull) / "step"
trained = Path(os.environ["TRAINED"]) / os.environ["WEIR_SWEEP_TRIAL"]
step = int(saved.read_text()) if directory and saved.exists() else 0
if way == "fails":
    sys.exit("it fails")
while step < steps:
    step += 1
    with trained.open("a") as file:
        file.write(f"{step}\\n")
    weir.report(step=step, loss=abs(lr - 0.3) + 1 / step)
    if way == "saves" or (way == "asks" and weir.stopping()):
        saved.write_text(str(step))
        weir.checkpointed(step=step)
    if way in ("asks", "forgets") and weir.stopping():
        sys.exit()
"""


def job_of(pod: Mapping[str, Any]) -> str:
    """Return the Job of a pod."""
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"])


def promoted(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the Jobs of pods that run for a promoted trial."""
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    return [job_of(pod) for pod in running if not job_of(pod).endswith("-0")]


class TrialRunner:
    """Runs the pods of a namespace that are running, one process for each, and tells their ends."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.trained = directory / "trained"
        self.claims = directory / "claims"
        self.script = directory / "train.py"
        self.runs: Counter[str] = Counter()
        self.paused = threading.Event()
        self.pauses_at_promotion = False
        self._messages = directory / "messages"
        for each in (self.trained, self.claims, self._messages):
            each.mkdir()
        self.script.write_text(SCRIPT)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ended: set[str] = set()
        self._outcomes: dict[str, tuple[int, str]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _why: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def steps(self, trial: int) -> list[int]:
        """Return the steps that a trial has trained, in order."""
        file = self.trained / str(trial)
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def _run(self) -> None:
        while not self._ends.wait(0.1):
            if self.paused.is_set():
                continue
            with suppress(ApiError, OSError):  # the next look
                pods = self.cluster.pods(self.namespace)
                if self.pauses_at_promotion and promoted(pods):
                    self.paused.set()
                    continue
                for pod in pods:
                    uid = pod["metadata"]["uid"]
                    if pod["status"].get("phase") == "Running" and uid not in self._ended:
                        if uid not in self._outcomes:  # it trains once, though the end may be told again
                            self._outcomes[uid] = self._trained(pod)
                        self._end(pod, *self._outcomes[uid])
                        self._ended.add(uid)

    def _trained(self, pod: Mapping[str, Any]) -> tuple[int, str]:
        """Run the container; return its exit code and its termination message."""
        (container,) = pod["spec"]["containers"]
        env = {each["name"]: each["value"] for each in container["env"]}
        message = self._messages / pod["metadata"]["name"]
        assert env["WEIR_SWEEP_MESSAGE"] == container["terminationMessagePath"]
        env |= {
            "WEIR_SWEEP_MESSAGE": str(message),
            "TRAINED": str(self.trained),
            "PYTHONPATH": str(ROOT / "src"),
        }
        for mount in container.get("volumeMounts", []):
            if mount["mountPath"] == env.get("WEIR_CHECKPOINT_DIR"):
                directory = self.claims / mount["subPath"]
                directory.mkdir(parents=True, exist_ok=True)
                env["WEIR_CHECKPOINT_DIR"] = str(directory)
        self.runs[job_of(pod)] += 1
        words = [sys.executable, str(self.script), *container["command"][2:]]
        code = subprocess.run(words, env=env, check=False, timeout=300, capture_output=True).returncode
        return code, message.read_text() if message.exists() else ""

    def _end(self, pod: Mapping[str, Any], code: int, message: str) -> None:
        metadata, (status,) = pod["metadata"], pod["status"]["containerStatuses"]
        began = status["state"]["running"]["startedAt"]
        ended = {"exitCode": code, "message": message, "startedAt": began, "finishedAt": began}
        status = {**status, "ready": False, "started": False, "state": {"terminated": ended}}
        change = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [status]}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self.cluster.api.patch(path, {"status": change})
