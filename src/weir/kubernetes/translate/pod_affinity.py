"""Pod affinity, as label sets that pods carry and rules that count them.

A rule of the API names others by a selector in namespaces. Each such selector becomes a mark. A pod bears the
marks of those selectors that match it and that some rule in the cluster uses. So equal pods stay equal where
no rule asks. Some rules work both ways (anti-affinity, preferences): a pod that has one bears a mark of its
own, and all pods that its selector matches have the same rule about it.

A selector that turns up changes other pods, and so do the labels of a namespace: `see` and `namespace`
say which.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from weir.kubernetes.api.objects import KubePod, PodAffinityTerm, TopologySpreadConstraint
from weir.kubernetes.translate.selectors import CompiledSelector, selector
from weir.model.workloads import PodAffinityRule

SPREAD_WISH = 100
"""Weight of a preferred spread, equal to the strongest affinity preference."""
NO_POD = "no-pod"
"""A label set that no pod has."""
_NAME_LENGTH_MAX = 160


@dataclass(frozen=True, slots=True)
class PodAffinities:
    """Label sets of a pod, and its rules about other pods' label sets."""

    marks: tuple[str, ...] = ()
    rules: tuple[PodAffinityRule, ...] = ()


NO_AFFINITIES = PodAffinities()


@dataclass(frozen=True, slots=True, order=True)
class PodSelector:
    """Pods that a selector matches, in namespaces by name or by their labels."""

    selector: CompiledSelector
    namespaces: tuple[str, ...] = ()
    by_labels: CompiledSelector | None = None

    def __str__(self) -> str:
        where = [*self.namespaces]
        if self.by_labels is not None:
            where.append(f"namespaces with {self.by_labels}" if self.by_labels.terms else "all namespaces")
        return f"{self.selector} in {', '.join(where)}"


@dataclass(frozen=True, slots=True)
class SymmetricRule:
    """A rule of the pods that another pod's own rule selects."""

    kind: Literal["affinity", "anti_affinity"]
    topology: str
    weight: int


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Pods selected by all of several selectors; with `returned`, pods that have a rule about such pods."""

    crowds: tuple[PodSelector, ...]
    returned: SymmetricRule | None = None

    @property
    def name(self) -> str:
        """Name in the engine and in messages."""
        text = " and ".join(map(str, self.crowds))
        if self.returned is not None:
            how = "near" if self.returned.kind == "affinity" else "apart from"
            wish = f"rather ({self.returned.weight}) " if self.returned.weight else ""
            text = f"{wish}{how} {text} by {self.returned.topology}"
        if len(text) <= _NAME_LENGTH_MAX:
            return text
        return f"{text[: _NAME_LENGTH_MAX - 9]} {sha256(text.encode()).hexdigest()[:8]}"


@dataclass(slots=True)
class _SelectedPod:
    """A pod: the index entries that match it, its terms, and the label sets whose rules match it."""

    namespace: str
    labels: Mapping[str, str]
    wants: tuple[tuple[LabelSet, PodAffinityRule], ...]
    returned: tuple[LabelSet, ...]  # label sets of its own rules that their targets carry in turn
    matched: set[LabelSet] = field(default_factory=set)


class PodSelectors:
    """Index of all pods, of the selectors in use, and of the pods that match each.

    A selector that no rule uses any more stays as long as pods have its label set. So pods don't change each
    time a rule is added or removed.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _SelectedPod] = {}
        self._in: dict[str, dict[str, None]] = {}  # pods by namespace
        self._uses: dict[LabelSet, int] = {}
        self._bearers: dict[LabelSet, set[str]] = {}  # matching pods by label set
        self._by_pair: dict[
            tuple[str, str], dict[LabelSet, None]
        ] = {}  # label sets by a label that their pods must have
        self._others: dict[LabelSet, None] = {}  # label sets without such a label
        self._namespaces: dict[str, Mapping[str, str]] = {}

    def affinities_of(self, uid: str) -> PodAffinities:
        """Return the label sets and rules of a known pod."""
        pod = self._pods.get(uid)
        if pod is None or not (pod.matched or pod.wants or pod.returned):
            return NO_AFFINITIES
        marks = {mark.name for mark in pod.matched if mark.returned is None}
        marks |= {mark.name for mark in pod.returned}
        rules = {rule for _, rule in pod.wants}
        rules |= {
            PodAffinityRule(mark.returned.kind, mark.name, mark.returned.topology, mark.returned.weight)
            for mark in pod.matched
            if mark.returned is not None
        }
        return PodAffinities(tuple(sorted(marks)), tuple(sorted(rules, key=_by_words)))

    def see(self, pod: KubePod) -> frozenset[str]:
        """Process a new or changed pod; return the other pods whose affinities change because of it."""
        uid, metadata = pod.metadata.uid, pod.metadata
        before = self._pods.get(uid)
        wants: tuple[tuple[LabelSet, PodAffinityRule], ...] = ()
        returned: tuple[LabelSet, ...] = ()
        if pod.spec.affinity is not None or pod.spec.topology_spread_constraints:
            wants, returned = tuple(_wants(pod)), tuple(dict.fromkeys(_returned(pod)))
        if before is not None and (before.labels, before.wants, before.returned) == (
            metadata.labels,
            wants,
            returned,
        ):
            return frozenset()
        tracked = _SelectedPod(metadata.namespace, metadata.labels, wants, returned)
        changed: set[str] = set()
        if wants or returned:
            for mark in _used(tracked):
                changed |= self._use(mark)
        if before is not None:
            self.forget(uid)
        self._pods[uid] = tracked
        self._in.setdefault(tracked.namespace, {})[uid] = None
        if self._uses:
            self._match(uid, tracked)
        return frozenset(changed - {uid})

    def forget(self, uid: str) -> None:
        """Process the deletion of a pod."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._in[pod.namespace].pop(uid)
        if not self._in[pod.namespace]:
            del self._in[pod.namespace]
        for mark in _used(pod):
            self._uses[mark] -= 1
        for mark in pod.matched:
            self._bearers[mark].discard(uid)
        for mark in (*pod.matched, *_used(pod)):
            self._tidy(mark)

    def namespace(self, name: str, labels: Mapping[str, str] | None) -> frozenset[str]:
        """Process a changed or deleted (None) namespace; return the pods whose affinities change."""
        if self._namespaces.get(name) == labels:
            return frozenset()
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        return frozenset(uid for uid in self._in.get(name, ()) if self._match(uid, self._pods[uid]))

    def __len__(self) -> int:
        """Return the number of label sets."""
        return len(self._uses)

    def _match(self, uid: str, pod: _SelectedPod) -> bool:
        """Find the label sets of a pod; return True if they have changed."""
        matched = {mark for mark in self._candidates(pod.labels) if self._matches(mark, pod)}
        if matched == pod.matched:
            return False
        left, pod.matched = pod.matched - matched, matched
        for mark in matched:
            self._bearers[mark].add(uid)
        for mark in left:
            self._bearers[mark].discard(uid)
            self._tidy(mark)
        return True

    def _use(self, mark: LabelSet) -> set[str]:
        """Count a user of a label set; return the pods that match it, if it is new."""
        if mark in self._uses:
            self._uses[mark] += 1
            return set()
        self._uses[mark] = 1
        pair = _pair(mark)
        (self._others if pair is None else self._by_pair.setdefault(pair, {}))[mark] = None
        bearers = self._bearers[mark] = {
            uid for uid in self._within(mark) if self._matches(mark, self._pods[uid])
        }
        for uid in bearers:
            self._pods[uid].matched.add(mark)
        return set(bearers)

    def _tidy(self, mark: LabelSet) -> None:
        """Forget a label set without rules and without pods."""
        if self._uses.get(mark) != 0 or self._bearers[mark]:
            return
        del self._uses[mark], self._bearers[mark]
        pair = _pair(mark)
        if pair is None:
            del self._others[mark]
        else:
            del self._by_pair[pair][mark]
            if not self._by_pair[pair]:
                del self._by_pair[pair]

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[LabelSet]:
        """Yield the label sets that pods with these labels may match."""
        yield from self._others
        for pair in labels.items():
            yield from self._by_pair.get(pair, ())

    def _within(self, mark: LabelSet) -> Iterator[str]:
        """Yield the pods in the namespaces of a label set."""
        crowd = mark.crowds[0] if mark.crowds else None
        if crowd is not None and crowd.by_labels is None:
            for namespace in crowd.namespaces:
                yield from self._in.get(namespace, ())
        elif crowd is not None:
            yield from self._pods

    def _matches(self, mark: LabelSet, pod: _SelectedPod) -> bool:
        return bool(mark.crowds) and all(
            crowd.selector.holds(pod.labels)
            and (
                pod.namespace in crowd.namespaces
                or (
                    crowd.by_labels is not None
                    and crowd.by_labels.holds(self._namespaces.get(pod.namespace, {}))
                )
            )
            for crowd in mark.crowds
        )


def _pair(mark: LabelSet) -> tuple[str, str] | None:
    """Return a label that all pods of a label set must have; None without one."""
    for crowd in mark.crowds:
        for term in crowd.selector.terms:
            if term.operator == "In" and len(term.values) == 1:
                return term.key, term.values[0]
    return None


def _used(pod: _SelectedPod) -> Iterator[LabelSet]:
    yield from dict.fromkeys([*(mark for mark, _ in pod.wants), *pod.returned])


def _by_words(rule: PodAffinityRule) -> tuple[str, str, str, int]:
    return rule.kind, rule.topology, rule.mark, rule.weight


# Rules in a pod's spec


def _wants(pod: KubePod) -> Iterator[tuple[LabelSet, PodAffinityRule]]:
    """Yield the rules of a pod, each with the label set that it counts."""
    affinity = pod.spec.affinity
    if affinity is not None and affinity.pod_affinity is not None:
        # As in Kubernetes, a pod counts if it matches all required terms
        required = affinity.pod_affinity.required
        mark = _mark(_crowd(term, pod) for term in required)
        for term in required:
            yield mark, PodAffinityRule("affinity", _name(mark), term.topology_key)
    for crowd, rule in _both_ways(pod):
        mark = LabelSet((crowd,))
        yield mark, PodAffinityRule(rule.kind, mark.name, rule.topology, rule.weight)
    for constraint in pod.spec.topology_spread_constraints:
        yield _spread(constraint, pod)


def _returned(pod: KubePod) -> Iterator[LabelSet]:
    """Yield the label sets by which a pod's own rules bind other pods."""
    for crowd, rule in _both_ways(pod):
        yield LabelSet((crowd,), rule)


def _both_ways(pod: KubePod) -> Iterator[tuple[PodSelector, SymmetricRule]]:
    """Yield the rules of a pod that also bind other pods, each with its selector, if that matches any pod."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    away = affinity.pod_anti_affinity if affinity is not None else None
    terms: list[tuple[Literal["affinity", "anti_affinity"], PodAffinityTerm, int]] = []
    if near is not None:
        terms += [("affinity", wish.pod_affinity_term, wish.weight) for wish in near.preferred]
    if away is not None:
        terms += [("anti_affinity", term, 0) for term in away.required]
        terms += [("anti_affinity", wish.pod_affinity_term, wish.weight) for wish in away.preferred]
    for kind, term, weight in terms:
        crowd = _crowd(term, pod)
        if crowd is not None:
            yield crowd, SymmetricRule(kind, term.topology_key, weight)


def _spread(constraint: TopologySpreadConstraint, pod: KubePod) -> tuple[LabelSet, PodAffinityRule]:
    labels = pod.metadata.labels
    chosen = selector(constraint.label_selector, labels, constraint.match_label_keys)
    mark = _mark([None if chosen is None else PodSelector(chosen, (pod.metadata.namespace,))])
    must = constraint.when_unsatisfiable == "DoNotSchedule"
    return mark, PodAffinityRule(
        "spread",
        _name(mark),
        constraint.topology_key,
        weight=0 if must else SPREAD_WISH,
        max_skew=constraint.max_skew,
        min_domains=(constraint.min_domains or 1) if must else 1,
        every_node=constraint.node_affinity_policy == "Ignore",
        untainted=constraint.node_taints_policy == "Honor",
    )


def _mark(crowds: Iterable[PodSelector | None]) -> LabelSet:
    """Return the label set of the pods that match all selectors; None among them matches no pod."""
    selectors = list(crowds)
    return (
        LabelSet(())
        if None in selectors
        else LabelSet(tuple(sorted({crowd for crowd in selectors if crowd is not None})))
    )


def _name(mark: LabelSet) -> str:
    return mark.name if mark.crowds else NO_POD


def _crowd(term: PodAffinityTerm, pod: KubePod) -> PodSelector | None:
    labels = pod.metadata.labels
    chosen = selector(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys)
    if chosen is None:
        return None
    by_labels = selector(term.namespace_selector, {})
    namespaces = tuple(sorted(set(term.namespaces)))
    if not namespaces and by_labels is None:
        namespaces = (pod.metadata.namespace,)
    return PodSelector(chosen, namespaces, by_labels)
