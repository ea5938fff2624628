"""Suggestions that leave out a constraint on nodes: a GPU model, a list of nodes, a selector, an affinity."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from weir.api.answers import Suggestion
from weir.engine.placement.pod_affinity import rule_phrase
from weir.engine.refusals.holder_phrases import names_phrase
from weir.model.workloads import Request, TopologyRequest
from weir.service.suggestion_phrases import starts, suggestion
from weir.service.what_if import WhatIf, with_request
from weir.state.cluster import Cluster

MODELS_TRIED_MAX = 4
"""Limit of other GPU models that are tried, those of most nodes first."""


def without_required_level(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest to prefer a topology level instead of requiring one."""
    spec = trials.job.spec
    asked = spec.topology
    if asked is None or asked.required is None:
        return
    wished = TopologyRequest(asked.name, None, asked.preferred or asked.required)
    outcome = trials.tried(replace(spec, topology=wished))
    if outcome is not None:
        sentence = f"If its pods need not share one {asked.required}, {starts(outcome)}"
        change = {"topology": {"name": asked.name, "preferred": wished.preferred}}
        yield suggestion(sentence, dict(change), outcome)


def other_model(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest another GPU model for work that names some."""
    spec = trials.job.spec
    asked = spec.groups[0].request.gpu_models if len(spec.groups) == 1 else ()
    if not asked:
        return
    nodes_of = trials.read(_nodes_by_model)
    others = sorted(nodes_of.keys() - set(asked), key=lambda name: (-nodes_of[name], name))
    for model in others[:MODELS_TRIED_MAX]:
        outcome = trials.tried(with_request(spec, replace(spec.groups[0].request, gpu_models=(model,))))
        if outcome is not None:
            sentence = f"With GPU model {model} instead of {' or '.join(asked)} {starts(outcome)}"
            yield suggestion(sentence, {"gpu_models": [model]}, outcome)
            return


def _nodes_by_model(cluster: Cluster) -> Counter[str]:
    return Counter(
        node.gpu_model for node in cluster.nodes if node is not None and node.gpu_model is not None
    )


def without_constraint(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest to leave out a node selector, a list of nodes, or an affinity, each by itself."""
    spec = trials.job.spec
    if len(spec.groups) != 1:
        return
    for key, subject, request in _variants(spec.groups[0].request):
        outcome = trials.tried(with_request(spec, request))
        if outcome is not None:
            yield suggestion(f"{subject} {starts(outcome)}", {key: None}, outcome)


def _variants(request: Request) -> Iterator[tuple[str, str, Request]]:
    """Yield the request without one constraint: the field, the beginning of the sentence, the variant."""
    if request.nodes is not None:
        named = names_phrase(list(request.nodes), "and")
        yield "nodes", f"On any node instead of {named}", replace(request, nodes=None)
    if request.node_selector:
        labels = names_phrase([f"{key}={value}" for key, value in request.node_selector], "and")
        yield "node_selector", f"Without its node selector ({labels})", replace(request, node_selector=())
    if any(not rule.weight for rule in request.rules):
        kept = tuple([rule for rule in request.rules if rule.weight])
        yield "node_affinity", "Without its required node affinity", replace(request, rules=kept)
    hard = [rule for rule in request.pod_rules if not rule.weight]
    if hard:
        phrases = names_phrase([rule_phrase(rule) for rule in hard], "and")
        soft = tuple([rule for rule in request.pod_rules if rule.weight])
        yield "pod_affinity", f"Without its {phrases}", replace(request, pod_rules=soft)
