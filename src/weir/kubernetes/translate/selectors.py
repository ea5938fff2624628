"""Selectors of labels, in a form that can be compared, named and looked up.

Two ways of writing one selector give one value, so that equal rules become equal marks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from weir.kubernetes.api.objects import LabelSelector

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True, slots=True, order=True)
class SelectorTerm:
    """Expression of a selector; its values are sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return True if labels satisfy the expression. A missing label is in no list of values."""
        if self.operator in ("Exists", "DoesNotExist"):
            return (self.key in labels) == (self.operator == "Exists")
        return (self.key in labels and labels[self.key] in self.values) == (self.operator == "In")

    def __str__(self) -> str:
        if self.operator in ("Exists", "DoesNotExist"):
            return self.key if self.operator == "Exists" else f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == 'In' else '!='}{self.values[0]}"
        return f"{self.key} {'in' if self.operator == 'In' else 'not in'} ({','.join(self.values)})"


@dataclass(frozen=True, slots=True, order=True)
class CompiledSelector:
    """Terms that must all hold; without terms it matches everything."""

    terms: tuple[SelectorTerm, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return True if the selector matches these labels."""
        return all(term.holds(labels) for term in self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms)) or "every pod"


def selector(
    written: LabelSelector | None,
    labels: Mapping[str, str],
    same: Sequence[str] = (),
    other: Sequence[str] = (),
) -> CompiledSelector | None:
    """Return a selector for a pod with these labels; None matches nothing.

    `same` are keys whose value has to be the pod's own, `other` those where it mustn't be; keys that the pod
    doesn't have say nothing.
    """
    if written is None:
        return None
    terms = {SelectorTerm(key, "In", (value,)) for key, value in written.match_labels.items()}
    terms |= {
        SelectorTerm(requirement.key, requirement.operator, tuple(sorted(set(requirement.values))))
        for requirement in written.match_expressions
    }
    terms |= {SelectorTerm(key, "In", (labels[key],)) for key in same if key in labels}
    terms |= {SelectorTerm(key, "NotIn", (labels[key],)) for key in other if key in labels}
    return CompiledSelector(tuple(sorted(terms)))
