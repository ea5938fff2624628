"""Drained GPUs of the pool's node, kept in a file of the home: they survive restarts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from structlog import get_logger

from weir.local.server.home import private_files
from weir.local.server.home.node_drain import NodeDrain
from weir.service.queue_rows import DeviceUtilization

FILE = "drained-gpus.json"
GPUS_MAX: Final = 1024
_LOG = get_logger(__name__)


class GpuDrains(BaseModel):
    """Drained GPUs by index: the person, the time and the reason of each."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    gpus: Annotated[dict[Annotated[int, Field(ge=0)], NodeDrain], Field(max_length=GPUS_MAX)] = {}

    def sentences(self) -> dict[int, str]:
        """Return the state of each drained GPU in words."""
        return {index: drain.sentence for index, drain in sorted(self.gpus.items())}

    def changed(self, index: int, drain: NodeDrain | None) -> "GpuDrains":
        """Return the drained GPUs with one added, or removed (None)."""
        others = {other: kept for other, kept in self.gpus.items() if other != index}
        return GpuDrains(gpus=others if drain is None else {**others, index: drain})


def read_gpu_drains(home: Path, count: int) -> GpuDrains:
    """Return the drained GPUs of a home, of this number of GPUs.

    If the file can't be read, all count as drained: nothing starts until an administrator decides.
    """
    try:
        text = private_files.read(home / FILE)
        drains = GpuDrains() if text is None else GpuDrains.model_validate_json(text)
    except (OSError, ValidationError) as error:
        _LOG.warning("drained_gpus_unreadable", why=type(error).__name__)
        unknown = NodeDrain(user="weir", at_s=0.0, reason=f"{FILE} can't be read")
        return GpuDrains(gpus=dict.fromkeys(range(count), unknown))
    return GpuDrains(gpus={index: drain for index, drain in drains.gpus.items() if index < count})


def write_gpu_drains(home: Path, drains: GpuDrains) -> None:
    """Write the drained GPUs durably.

    Raises:
        OSError: the file can't be written; the old state stays.
    """
    private_files.write_durably(home / FILE, drains.model_dump_json() if drains.gpus else None)


def with_drained(
    readings: Mapping[tuple[str, int], DeviceUtilization], node: str, sentences: Mapping[int, str]
) -> dict[tuple[str, int], DeviceUtilization]:
    """Return the readings of devices with the state of those that are drained."""
    merged = dict(readings)
    for index, sentence in sentences.items():
        use = merged.get((node, index), DeviceUtilization())
        merged[node, index] = replace(use, drained=sentence)
    return merged
