"""Suggestions to end before an outage: with a shorter maximum run time, work may start before it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from weir.api.answers import Suggestion
from weir.model.nodes import Outage
from weir.model.resources import span
from weir.service.suggestion_phrases import starts, suggestion
from weir.service.what_if import WhatIf
from weir.state.cluster import Cluster

OUTAGES_TRIED_MAX = 4
"""Limit of beginnings of outages that are tried, the latest first; the first success is used."""
LONGEST_RUN_MIN_S = 300.0
TIME_TO_FOLLOW_S = 120.0
"""Time for a person to follow a suggestion: the run ends this long before the outage."""
_MINUTE_S = 60


def before_outages(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest the longest maximum run time that ends before an outage begins."""
    spec, now_s = trials.job.spec, trials.now_s
    begins = trials.read(partial(_next_outages, now_s=now_s))
    for from_s in sorted(begins, reverse=True)[:OUTAGES_TRIED_MAX]:
        minutes = int((from_s - now_s - TIME_TO_FOLLOW_S) // _MINUTE_S)
        longest_s = float(minutes * _MINUTE_S)
        if longest_s < LONGEST_RUN_MIN_S:
            return
        if spec.max_runtime_s is not None and spec.max_runtime_s <= longest_s:
            continue
        outcome = trials.tried(replace(spec, max_runtime_s=longest_s))
        if outcome is not None:
            node_name, outage = begins[from_s]
            before = "" if spec.max_runtime_s is None else f" instead of {span(spec.max_runtime_s)}"
            sentence = (
                f"With a maximum run time of {span(longest_s)}{before} {starts(outcome)} "
                f"It ends before {node_name} goes out of service: {outage.sentence}."
            )
            yield suggestion(sentence, {"max_runtime": f"{minutes}m"}, outcome)
            return


def _next_outages(cluster: Cluster, now_s: float) -> dict[float, tuple[str, Outage]]:
    """Return the outages that begin later, by their beginning, each with a node."""
    begins: dict[float, tuple[str, Outage]] = {}
    nodes = [cluster.nodes[index] for index in cluster.outage_nodes]
    for node in [node for node in nodes if node is not None]:
        for outage in node.outages:
            if outage.from_s > now_s and not outage.is_over(now_s):
                begins.setdefault(outage.from_s, (node.name, outage))
    return begins
