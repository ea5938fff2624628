"""Request of a job script, typed: options of the script, of variables and of the command line together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from weir.model.array_indices import ArrayIndices
from weir.slurm.amounts import limit_minutes, memory_mib, node_range, whole
from weir.slurm.array_option import array_indices
from weir.slurm.begin_times import begin_moment
from weir.slurm.dependencies import JobDependency, Unmet, read_dependencies
from weir.slurm.errors import SlurmError
from weir.slurm.given_options import GivenOption, last_of
from weir.slurm.gpu_requests import GpuRequest, OtherResource, read_gpus, read_gres, total
from weir.slurm.notice_signals import NoticeSignal, read_signal

GRACE_S = 30.0
"""Time between SIGTERM and SIGKILL, as KillWait of Slurm."""
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_MAIL_TYPES = (
    *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT", "ARRAY_TASKS"),
    *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50"),
)
_EXCLUSIVE = ("user", "mcs")
_OPEN_MODES = {"append": True, "a": True, "truncate": False, "t": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Request of a job. Fields of omitted options are None or empty.

    Attributes:
        options: the options that count, by name.
        nodes: least and largest number.
        tasks: of the whole job, given or implied.
        memory: MiB of each node; 0 is all of it.
        limit_minutes: None for no limit.
        append: open the output files to append; None: at a restart only.
    """

    options: Mapping[str, GivenOption]
    nodes: tuple[int, int] | None
    tasks: int
    cpus_per_task: int
    cpus_per_gpu: int | None
    tasks_per_gpu: int | None
    sockets: int
    mincpus: int
    memory: int | None
    memory_per_cpu: int | None
    memory_per_gpu: int | None
    gpus_per_node: Sequence[GpuRequest]
    gpus: Sequence[GpuRequest]
    gpus_per_task: Sequence[GpuRequest]
    gpus_per_socket: Sequence[GpuRequest]
    other_resources: Sequence[OtherResource]
    limit_minutes: int | None
    begin: datetime | None
    array: ArrayIndices | None
    dependencies: Sequence[JobDependency]
    unmet: Sequence[Unmet]
    signal: NoticeSignal | None
    requeue: bool
    append: bool | None

    def has(self, name: str) -> bool:
        """Return True if an option is given."""
        return name in self.options

    @property
    def grace_s(self) -> float:
        """Return the time between notice and end: that of Slurm, or more for a signal of the user."""
        return GRACE_S if self.signal is None else max(GRACE_S, self.signal.lead_s)

    def text(self, name: str) -> str:
        """Return the value of an option, empty if it isn't given."""
        return self.options[name].text if name in self.options else ""


def read_request(given: Sequence[GivenOption], now: datetime) -> BatchRequest:
    """Return the request of options: later ones replace earlier ones.

    Raises:
        SlurmError: a value can't be read, or two options contradict each other.
    """
    options = last_of(given)
    _check_memory(options)
    _check_exclusive(options)
    _check_mail(options)
    if "cpus-per-gpu" in options and "cpus-per-task" in options:
        raise SlurmError("--cpus-per-gpu and --cpus-per-task exclude each other: write one of them")
    gres, others = read_gres(options["gres"].text) if "gres" in options else ([], [])
    gpus = {
        name: _gpus(options, name) for name in ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
    }
    nodes = _nodes(options, gpus)
    per_node = gpus["gpus-per-node"] or gres
    text = {name: option.text for name, option in options.items()}
    dependencies, unmet = read_dependencies(text["dependency"]) if text.get("dependency") else ([], [])
    return BatchRequest(
        options=options,
        nodes=nodes,
        tasks=_tasks(options, nodes, per_node, gpus),
        cpus_per_task=_count(options, "cpus-per-task") or 1,
        cpus_per_gpu=_count(options, "cpus-per-gpu"),
        tasks_per_gpu=_count(options, "ntasks-per-gpu"),
        sockets=_count(options, "sockets-per-node") or 1,
        mincpus=_count(options, "mincpus") or 1,
        memory=_memory(options, "mem"),
        memory_per_cpu=_memory(options, "mem-per-cpu"),
        memory_per_gpu=_memory(options, "mem-per-gpu"),
        gpus_per_node=per_node,
        gpus=gpus["gpus"],
        gpus_per_task=gpus["gpus-per-task"],
        gpus_per_socket=gpus["gpus-per-socket"],
        other_resources=others,
        limit_minutes=limit_minutes(text["time"]) if "time" in text else None,
        begin=begin_moment(text["begin"], now) if "begin" in text else None,
        array=array_indices(text["array"]) if "array" in text else None,
        dependencies=dependencies,
        unmet=unmet,
        signal=read_signal(text["signal"]) if "signal" in text else None,
        requeue=_requeue(given),
        append=_append(options),
    )


def _check_memory(options: Mapping[str, GivenOption]) -> None:
    named = [options[name] for name in _MEMORY if name in options]
    if len(named) > 1:
        raise SlurmError(f"{named[0].written} and {named[1].written} exclude each other: write one of them")


def _memory(options: Mapping[str, GivenOption], name: str) -> int | None:
    return memory_mib(options[name].text, name) if name in options else None


def _count(options: Mapping[str, GivenOption], name: str) -> int | None:
    return whole(options[name].text, name) if name in options else None


def _gpus(options: Mapping[str, GivenOption], name: str) -> list[GpuRequest]:
    return read_gpus(options[name].text, name) if name in options else []


def _nodes(
    options: Mapping[str, GivenOption], gpus: Mapping[str, Sequence[GpuRequest]]
) -> tuple[int, int] | None:
    if "nodes" in options:
        return node_range(options["nodes"].text)
    all_gpus, per_node = total(gpus["gpus"]), total(gpus["gpus-per-node"])
    if all_gpus and per_node:
        if all_gpus % per_node:
            raise SlurmError(
                f"--gpus={all_gpus} is no multiple of --gpus-per-node={per_node}: write one of them"
            )
        return all_gpus // per_node, all_gpus // per_node
    return None


def _tasks(
    options: Mapping[str, GivenOption],
    nodes: tuple[int, int] | None,
    per_node: Sequence[GpuRequest],
    gpus: Mapping[str, Sequence[GpuRequest]],
) -> int:
    """Return the number of tasks, given or implied by nodes and GPUs."""
    given, least = _count(options, "ntasks"), nodes[0] if nodes else 1
    for_each_gpu, for_each_node = _count(options, "ntasks-per-gpu"), _count(options, "ntasks-per-node")
    of_task, all_gpus = total(gpus["gpus-per-task"]), total(gpus["gpus"])
    if of_task and given is None and not all_gpus:
        raise SlurmError("--gpus-per-task needs the number of tasks: write --ntasks too")
    if given is not None:
        return given
    if for_each_gpu is not None and (all_gpus or per_node):
        return for_each_gpu * (all_gpus or total(per_node) * least)
    if of_task:
        return max(1, all_gpus // of_task)
    return least * (for_each_node or 1)


def _requeue(given: Sequence[GivenOption]) -> bool:
    named = [option.name for option in given if option.name in ("requeue", "no-requeue")]
    return named[-1:] != ["no-requeue"]


def _append(options: Mapping[str, GivenOption]) -> bool | None:
    if "open-mode" not in options:
        return None
    mode = options["open-mode"].text.lower()
    if mode not in _OPEN_MODES:
        raise SlurmError(f"--open-mode={mode}: write --open-mode=append or --open-mode=truncate")
    return _OPEN_MODES[mode]


def _check_exclusive(options: Mapping[str, GivenOption]) -> None:
    if "exclusive" in options and options["exclusive"].value not in (None, *_EXCLUSIVE):
        raise SlurmError(f"{options['exclusive'].written}: write --exclusive or --exclusive=user")


def _check_mail(options: Mapping[str, GivenOption]) -> None:
    types = options["mail-type"].text.upper().split(",") if "mail-type" in options else []
    for mail_type in types:
        if mail_type not in _MAIL_TYPES:
            raise SlurmError(f"--mail-type={mail_type}: write BEGIN, END, FAIL or ALL")
