"""Curves of a workload over its run time."""

from typing import Literal

from weir.api.workload_list import Answer, Shown


class SeriesRow(Answer):
    """A curve of a workload: points are times and values, older ones further apart."""

    name: str
    kind: Shown[Literal["reported", "measured"]]
    unit: str = ""
    points: list[tuple[float, float]]


class SeriesAnswer(Answer):
    """The curves of a workload. `stands_in`: the GPUs are virtual, so use is that of processors.

    `note`: why the curves don't begin with the workload, if they don't.
    """

    name: str
    stands_in: bool
    series: list[SeriesRow]
    note: str | None = None
