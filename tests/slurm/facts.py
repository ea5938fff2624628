"""Facts of a job as `scontrol show job` writes them, from Slurm's answer and from our request."""

from collections.abc import Mapping
from datetime import datetime

from weir.slurm.batch_request import BatchRequest
from weir.slurm.file_patterns import DEFAULT, DEFAULT_OF_ARRAY, expand
from weir.slurm.gpu_requests import GpuRequest, read_gpus

Facts = dict[str, object]
_TRES = {
    "TresPerNode": "gpus per node",
    "TresPerJob": "gpus",
    "TresPerTask": "gpus per task",
    "TresPerSocket": "gpus per socket",
}
_UNKNOWN = "Unknown"


def of_slurm(answer: Mapping[str, str]) -> Facts:
    """Return the facts of Slurm's answer."""
    nodes, _, most = answer["NumNodes"].partition("-")
    facts: Facts = {
        "name": answer["JobName"],
        "nodes": [int(nodes), int(most)] if most else None,  # without a range it is an estimate
        "tasks": int(answer["NumTasks"]),
        "cpus per task": int(answer["CPUs/Task"]),
        "limit": None if answer["TimeLimit"] == "UNLIMITED" else _minutes(answer["TimeLimit"]),
        "requeue": answer["Requeue"] == "1",
        "memory": _mib(answer.get("MinMemoryNode", "0")),
        "memory per cpu": _mib(answer.get("MinMemoryCPU", "0")),
        "memory per gpu": int(answer.get("MemPerTres", "0").rpartition(":")[2]),
        "cpus per gpu": int(answer["CpusPerTres"].rpartition(":")[2]) if "CpusPerTres" in answer else None,
        "dependency": answer.get("Dependency", "").replace("(unfulfilled)", ""),
        "account": answer.get("Account", ""),
        "features": answer.get("Features", ""),
        "nodelist": answer.get("ReqNodeList", ""),
        "exclude": answer.get("ExcNodeList", ""),
        "exclusive": answer["OverSubscribe"] in ("NO", "USER"),
        "array": answer.get("ArrayTaskId", "").partition("%")[0],
        "at once": int(answer["ArrayTaskThrottle"]) if "ArrayTaskThrottle" in answer else None,
        "begin": None if answer["EligibleTime"] == _UNKNOWN else answer["EligibleTime"],
        "output": answer["StdOut"],
        "error": answer["StdErr"],
        "input": answer["StdIn"],
        "mail": answer.get("MailUser", ""),
    }
    for key, name in _TRES.items():
        parts = [part.removeprefix("gres:gpu").removeprefix(":") for part in answer.get(key, "").split(",")]
        facts[name] = [
            tuple(each) for part in parts if key in answer for each in read_gpus(part or "1", "gpus")
        ]
    return facts


def of_request(request: BatchRequest, answer: Mapping[str, str]) -> Facts:
    """Return the facts of our request, with the number that Slurm gave the job."""
    values = {
        "j": answer["JobId"],
        "A": answer["JobId"],
        "a": "4294967294",
        "x": request.text("job-name"),
        "u": "root",
    }
    name = request.text("job-name") if request.has("job-name") else "job.sh"
    values["x"] = name
    default = DEFAULT_OF_ARRAY if request.array else DEFAULT
    output = _path(expand(request.text("output") or default, values), request)
    error = _path(expand(request.text("error"), values), request) if request.has("error") else output
    source = _path(expand(request.text("input"), values), request) if request.has("input") else "/dev/null"
    begin = request.begin.strftime("%Y-%m-%dT%H:%M:%S") if request.begin else None
    exclusive = request.has("exclusive")
    return {
        "name": name,
        "nodes": list(request.nodes) if request.nodes else None,
        "tasks": request.tasks,
        "cpus per task": request.cpus_per_task,
        "limit": request.limit_minutes,
        "requeue": request.requeue,
        "memory": request.memory or 0,
        "memory per cpu": request.memory_per_cpu or 0,
        "memory per gpu": request.memory_per_gpu or 0,
        "cpus per gpu": request.cpus_per_gpu,
        "dependency": _dependency(request),
        "account": request.text("account"),
        "features": request.text("constraint"),
        "nodelist": request.text("nodelist"),
        "exclude": request.text("exclude"),
        "exclusive": exclusive,
        "array": _ranges(request.array.indices) if request.array else "",
        "at once": request.array.at_once if request.array else None,
        "begin": begin,
        "output": output,
        "error": error,
        "input": source,
        "mail": request.text("mail-user"),
        "gpus": _gpus(request.gpus),
        "gpus per node": _gpus(request.gpus_per_node),
        "gpus per task": _gpus(request.gpus_per_task),
        "gpus per socket": _gpus(request.gpus_per_socket),
    }


def submitted_at(answer: Mapping[str, str]) -> datetime:
    """Return the time of the submission, as if in this machine's zone."""
    return datetime.fromisoformat(answer["SubmitTime"]).astimezone()


def _gpus(requests: object) -> list[tuple[object, ...]]:
    assert isinstance(requests, list)
    return [tuple(each) for each in requests if isinstance(each, GpuRequest)]


def _path(name: str, request: BatchRequest) -> str:
    chdir = request.text("chdir")
    directory = chdir if chdir.startswith("/") else f"DIR/{chdir}".rstrip("/")
    return name if name.startswith("/") else f"{directory}/{name}"


def _dependency(request: BatchRequest) -> str:
    """Return the dependencies as Slurm lists them: one for each job."""
    if request.unmet:
        return ",".join(each.written for each in request.unmet)
    return ",".join(f"{each.kind}:{each.job}" for each in request.dependencies)


def _ranges(indexes: tuple[int, ...]) -> str:
    """Return indexes as Slurm shows them: neighbours as a range."""
    parts: list[list[int]] = []
    for index in indexes:
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _minutes(text: str) -> int:
    days, _, clock = text.rpartition("-")
    hours, minutes, _ = (int(each) for each in clock.split(":"))
    return int(days or 0) * 1440 + hours * 60 + minutes


def _mib(text: str) -> int:
    factor = {"M": 1, "G": 1 << 10, "T": 1 << 20}.get(text[-1:])
    return int(text) if factor is None else round(float(text[:-1]) * factor)
