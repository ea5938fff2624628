"""GPUs in the four spellings of Slurm: --gres, --gpus, --gpus-per-node and --gpus-per-task."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from weir.slurm.errors import SlurmError

_COUNT = re.compile(r"\d{1,6}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*", re.ASCII)
_THOUSAND = 1024


class GpuRequest(NamedTuple):
    """Number of GPUs, and their model; None: any."""

    number: int
    model: str | None = None


class OtherResource(NamedTuple):
    """A resource of --gres that is no GPU."""

    written: str


def read_gres(text: str) -> tuple[list[GpuRequest], list[OtherResource]]:
    """Return the GPUs of --gres, and its other resources.

    Raises:
        SlurmError: it can't be read.
    """
    gpus: list[GpuRequest] = []
    others: list[OtherResource] = []
    if text.lower() == "none":
        return gpus, others
    for part in text.split(","):
        written = part.removeprefix("gres:")
        name, _, rest = written.partition(":")
        if re.match(r"gpu\b", name) is None:
            others.append(OtherResource(part))
        elif written == "gpu":
            gpus.append(GpuRequest(1))
        else:
            right = "--gres=gpu:2 or --gres=gpu:a100:2"
            gpus.append(_request(rest if name == "gpu" else name, "gres", right))
    return gpus, others


def read_gpus(text: str, option: str) -> list[GpuRequest]:
    """Return the GPUs of --gpus and the options like it.

    Raises:
        SlurmError: they can't be read.
    """
    right = f"--{option}=2 or --{option}=a100:2"
    return [_request(part, option, right) for part in text.split(",")]


def _request(text: str, option: str, right: str) -> GpuRequest:
    """Return a count, a model, or both."""
    model, parted, count = text.rpartition(":")
    if not parted and _MODEL.fullmatch(text):
        return GpuRequest(1, text)
    number = _number(count)
    if number is None or (parted and _MODEL.fullmatch(model) is None):
        raise SlurmError(f"--{option}: {text!r} is no number of GPUs: write {right}")
    return GpuRequest(number, model or None)


def _number(text: str) -> int | None:
    digits, factor = (text[:-1], _THOUSAND) if text[-1:].lower() == "k" else (text, 1)
    return int(digits) * factor if _COUNT.fullmatch(digits) else None


def total(requests: Sequence[GpuRequest]) -> int:
    """Return the number of GPUs of several requests."""
    return sum(request.number for request in requests)


def models(requests: Sequence[GpuRequest]) -> tuple[str, ...]:
    """Return the models that are named, each once."""
    return tuple(dict.fromkeys(request.model for request in requests if request.model is not None))
