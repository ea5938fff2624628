"""Curves and nodes of reports, against sums that are made second by second."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.kubernetes.query.usage.nodes import on_nodes
from weir.kubernetes.query.usage.past_workloads import USE_S, UsageHistoryEntry, UsageSpan
from weir.kubernetes.query.usage.reports import POINT_S, ReportRequest, history_report

BEGAN_S = 6000  # a border of measured use, as all of its times are
NODES = ("a", "b", "c")


@st.composite
def past(draw: st.DrawFn) -> UsageHistoryEntry:
    times = sorted(draw(st.lists(st.integers(BEGAN_S - 900, BEGAN_S + 2400), min_size=1, max_size=6)))
    found = UsageHistoryEntry("ns", "vision", "train", float(times[0]))
    for at_s in times:
        nodes = draw(st.dictionaries(st.sampled_from(NODES), st.sampled_from((0.5, 1.0, 8.0)), max_size=3))
        gpus = sum(nodes.values())
        waits = draw(st.booleans()) and not gpus
        found.spans.append(UsageSpan(float(at_s), gpus, waits=waits, nodes=tuple(sorted(nodes.items()))))
    for step in draw(st.sets(st.integers(0, 7))):
        found.uses[BEGAN_S + step * USE_S] = (300.0, 200.0)
    return found


def at(entry: UsageHistoryEntry, second: int) -> UsageSpan | None:
    """Return the span of a second, to the last of those that begin at its start."""
    return next((span for span in reversed(entry.spans) if span.from_s <= second), None)


@given(entries=st.lists(past(), max_size=3), length_s=st.integers(1, 1900), offset_s=st.integers(-400, 400))
def test_the_curve_has_the_gpu_seconds_and_waits_of_each_point(
    entries: list[UsageHistoryEntry], length_s: int, offset_s: int
) -> None:
    since_s = BEGAN_S + offset_s
    until_s = since_s + length_s
    report = history_report(entries, {}, ReportRequest(since_s, until_s, "project"), "")
    expected: dict[int, list[float]] = {point: [0.0, 0.0] for point in range(len(report.points))}
    for second in range(since_s, until_s):
        for span in (at(each, second) for each in entries):
            if span is not None:
                sums = expected[int((second - since_s) // POINT_S)]
                sums[0] += span.gpus
                sums[1] += span.waits
    assert [[each.allocated_gpu_s, each.waiting_s] for each in report.points] == [
        pytest.approx(sums) for sums in expected.values()
    ]
    assert sum(each.span_s for each in report.points) == length_s


@given(entry=past())
def test_each_node_has_its_part_of_the_measured_use(entry: UsageHistoryEntry) -> None:
    found: dict[str, Any] = {node: each.uses for node, (each,) in on_nodes([entry]).items()}
    for from_s, sums in entry.uses.items():
        held = dict.fromkeys(NODES, 0.0)
        for span in (at(entry, second) for second in range(from_s, from_s + USE_S)):
            for node, gpus in () if span is None else span.nodes:
                held[node] += gpus
        whole = sum(held.values())
        for node, seconds in held.items():
            part = found.get(node, {}).get(from_s)
            if not seconds:
                assert part is None
            else:
                assert part == pytest.approx([each * seconds / whole for each in sums])
