"""Details of a decision as lines: nodes by score, and victims by price."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir.cli.output.columns import Column, table
from weir.cli.output.formatting import NOTHING, counted, number
from weir.cli.output.terminal import Screen
from weir.model.reasons import rule_phrase

if TYPE_CHECKING:
    from weir.api.decision import DecisionAnswer, NodeRankingRow, NodeScoreRow, VictimRow

_FRAGMENTATION_PLACES = 3
_HOUR_S = 3600.0


def decision_lines(answer: "DecisionAnswer", display: Screen) -> list[str]:
    """Return the nodes for its next pod and the victims considered."""
    lines: list[str] = []
    if answer.again:
        lines += ["", "No decision about it is due. If it had to be placed now, this would be the decision:"]
    for ranking in answer.rankings:
        lines += ["", *_ranked(ranking, display, named=len(answer.rankings) > 1)]
    return [*lines, "", *_victims(answer, display)]


def _ranked(ranking: "NodeRankingRow", display: Screen, *, named: bool) -> list[str]:
    pod = f"the next pod of group {ranking.group}" if named else "its next pod"
    if not ranking.nodes:
        return [display.paint(f"No node has the capacity for {pod} now", "strong")]
    chosen = ranking.nodes[0]
    columns: Sequence[Column[NodeScoreRow]] = (
        Column("NODE", lambda row: row.node, least=10),
        Column("FREE GPUS", lambda row: number(row.free_gpus), right=True),
        Column("PREFERENCE", lambda row: str(row.preference), right=True),
        Column("FRAGMENTATION", lambda row: number(row.fragmentation, _FRAGMENTATION_PLACES), right=True),
        Column("", lambda row: "chosen" if row is chosen else ""),
    )
    head = f"Nodes for {pod}, best first ({counted(ranking.fitting, 'node has', 'nodes have')} the capacity)"
    return [display.paint(head, "strong"), *(f"  {line}" for line in table(ranking.nodes, columns, display))]


def _victims(answer: "DecisionAnswer", display: Screen) -> list[str]:
    if not answer.victims:
        return [display.paint("No running workload holds capacity that would help", "strong")]
    head = f"Victims, in their order: {answer.eligible:,} eligible, {answer.protected:,} protected"
    return [
        display.paint(head, "strong"),
        *(f"  {line}" for line in table(answer.victims, _VICTIMS, display)),
    ]


def _gpu_hours(seconds: float | None) -> str:
    return NOTHING if seconds is None else number(seconds / _HOUR_S)


def _verdict(row: "VictimRow") -> str:
    if row.protected:
        return f"protected: {row.protected}"
    return rule_phrase(row.rule) if row.rule else "only after others have stopped"


_VICTIMS: "Sequence[Column[VictimRow]]" = (
    Column("WORKLOAD", lambda row: row.workload, least=10),
    Column("PROJECT", lambda row: row.project, least=8, drop=1),
    Column("GPUS", lambda row: number(row.gpus), right=True),
    Column("COST GPU-HOURS", lambda row: _gpu_hours(row.lost), right=True),
    Column("PRICE", lambda row: _gpu_hours(row.price), right=True, drop=2),
    Column("RULE", _verdict, least=20, sentence=True),
)
