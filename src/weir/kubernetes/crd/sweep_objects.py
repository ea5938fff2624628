"""The kind `Sweep`: a search that people state in its spec, and its trials in its status, which Weir writes.

The parameters of a trial are a text: a number of the API may come back in another form.
"""

from typing import Annotated, Any

from msgspec import Meta, field

from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.crd.objects import Moment, Needed

KIND, PLURAL = "Sweep", "sweeps"
RUNNING, FINISHED, STOPPED, FAILED = "Running", "Finished", "Stopped", "Failed"
LIVE, PARKED, SUCCEEDED_TRIAL, FAILED_TRIAL, STOPPED_TRIAL = (
    "live",
    "parked",
    "succeeded",
    "failed",
    "stopped",
)
TRIALS_MAX = 1000
"""Trials of one sweep: all are in one object."""
STATUS_BYTES_MAX = 700_000
"""Estimated size of a status. etcd takes 1.5 MB for an object, and writes need some capacity."""
_PHASES = [RUNNING, FINISHED, STOPPED, FAILED]
_STATES = [LIVE, PARKED, SUCCEEDED_TRIAL, FAILED_TRIAL, STOPPED_TRIAL]
_LONG = 1 << 16
Text = Annotated[str, Meta(max_length=_LONG)]


class SweepSpec(ApiStruct, omit_defaults=True):
    """A search as a person states it. `job_template` is the Job of a trial without its parameters."""

    project: Needed[str] = ""
    params: Needed[dict[str, Text]] = field(default_factory=dict)
    rungs: Needed[list[int]] = field(default_factory=list)
    trials: int | None = None
    eta: int = 4
    metric: str = "loss"
    mode: Annotated[str, Meta(extra_json_schema={"enum": ["min", "max"]})] = "min"
    sampler: str = "tpe"
    seed: int = 0
    parallel: int | None = None
    arguments: bool = True
    checkpoint_claim: str = ""
    gpus: str = ""
    job_template: Needed[dict[str, Any]] = field(default_factory=dict)
    stop: bool = False


class ReachedRung(ApiStruct, omit_defaults=True):
    """A result of a trial. `rung` counts the rungs from 0."""

    rung: Needed[int]
    step: Needed[int]
    at: Moment = ""
    value: float | None = None  # None: its metric was no finite number
    promoted_among: int | None = None


class SweepTrial(ApiStruct, omit_defaults=True):
    """A trial: its parameters and the state of the sampler as JSON, and the rung that it runs to."""

    params: Needed[Text]
    state: Annotated[str, Meta(extra_json_schema={"enum": _STATES})] = LIVE
    target: int = 0
    job: str = ""  # uid of the Job that runs to the target rung
    results: list[ReachedRung] = field(default_factory=list)
    seconds: float = 0.0
    sampler_state: Text = ""


class SweepStatus(ApiStruct, omit_defaults=True):
    """State of a sweep, with all its trials by number."""

    phase: Annotated[str, Meta(extra_json_schema={"enum": _PHASES})] = ""
    message: str = ""
    ended_at: Moment | None = None
    best: str = ""
    progress: str = ""
    trials: list[SweepTrial] = field(default_factory=list)


class SweepObject(ApiStruct):
    """A Sweep."""

    metadata: Metadata
    spec: SweepSpec = field(default_factory=SweepSpec)
    status: SweepStatus = field(default_factory=SweepStatus)
