"""Settings of a job that the batch program reads when the job starts: one JSON text."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

FUNCTIONS = "SLURM_EXPORTED_FUNCTIONS"
"""Variable with exported functions of the shell as JSON: their names can't be variables of a workload."""
SCRIPT_NAME = "slurm_script"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Facts of a job at its submission.

    Attributes:
        name: the name of the job, which is not unique.
        tasks: of the whole job.
        nodes: nodes or pods that run the script.
        cpus: of all tasks of a node together.
        output: pattern of the file; None: the default.
        error: None: where the output goes.
        append: None: append at a restart, truncate else.
        variables: what sbatch puts into the environment.
        notice: number of the signal before the end, its seconds, and 1 if the script alone gets it.
        limit_s: time limit; None: no limit.
        grace_s: time between notice and end.
    """

    name: str
    tasks: int = 1
    nodes: int = 1
    cpus: int = 1
    output: str | None = None
    error: str | None = None
    input: str | None = None
    append: bool | None = None
    requeue: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    notice: tuple[int, int, int] | None = None
    limit_s: float | None = None
    grace_s: float = 30.0


def as_text(settings: JobSettings) -> str:
    """Return settings as JSON, without those that have their default."""
    default = asdict(JobSettings(name=""))
    values = asdict(settings)
    changed = {key: value for key, value in values.items() if key == "name" or value != default[key]}
    return json.dumps(changed, ensure_ascii=False)


def read_settings(text: str) -> JobSettings:
    """Return the settings of a JSON text."""
    values = json.loads(text)
    if values.get("notice") is not None:
        values["notice"] = tuple(values["notice"])
    return JobSettings(**values)
