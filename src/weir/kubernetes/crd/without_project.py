"""A rule for pods that ask for GPUs in namespaces that no project lists: leave them, refuse or queue them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from weir.kubernetes.api.paths import is_name

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")

Action = Literal["ignore", "refuse", "queue"]


@dataclass(frozen=True, slots=True)
class WithoutProject:
    """Treatment of pods without a project, and the namespaces in which it applies."""

    action: Action = "ignore"
    project: str = ""  # project that such pods are queued in
    labels: tuple[tuple[str, str], ...] = ()  # labels of the namespaces; empty: any
    exempt: tuple[str, ...] = ()  # excluded namespaces besides those of the system

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return True if the rule applies in a namespace that no project lists."""
        if self.action == "ignore" or namespace in SYSTEM_NAMESPACES or namespace in self.exempt:
            return False
        return all(labels.get(key) == value for key, value in self.labels)

    def project_for(self, namespace: str, labels: Mapping[str, str]) -> str | None:
        """Return the project in which pods of such a namespace are queued; None if they aren't queued."""
        return self.project if self.action == "queue" and self.covers(namespace, labels) else None

    def words(self) -> list[str]:
        """Return the arguments that state the rule to `weir up` and `weir kube manifests`."""
        if self.action == "ignore":
            return []
        arguments = ["--without-project", f"queue:{self.project}" if self.action == "queue" else self.action]
        if self.labels:
            arguments += ["--without-project-in", ",".join(f"{key}={value}" for key, value in self.labels)]
        if self.exempt:
            arguments += ["--without-project-exempt", ",".join(self.exempt)]
        return arguments


IGNORE = WithoutProject()


def read_rule(action: str, labels: Mapping[str, str], exempt: tuple[str, ...]) -> WithoutProject:
    """Return the rule of these words.

    Raises:
        ValueError: the words state no rule; the sentence has the correct form.
    """
    word, colon, project = action.partition(":")
    if word == "queue":
        if not is_name(project):
            raise ValueError(f"{action!r} names no project: write queue:PROJECT")
    elif word not in ("ignore", "refuse") or colon:
        raise ValueError(f"{action!r} isn't known: write ignore, refuse or queue:PROJECT")
    checked_action: Action = "queue" if word == "queue" else "refuse" if word == "refuse" else "ignore"
    return WithoutProject(checked_action, project, tuple(sorted(labels.items())), exempt)
