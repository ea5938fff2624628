"""Namespaces whose workloads an installation manages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManagedNamespaces:
    """Names of the managed namespaces, in order; without one, all namespaces are managed."""

    names: tuple[str, ...] = ()

    @property
    def are_all(self) -> bool:
        """Return True if every namespace is managed."""
        return not self.names

    def __contains__(self, namespace: object) -> bool:
        return not self.names or namespace in self.names

    def words(self) -> list[str]:
        """Return the arguments that state them to `weir up`."""
        return ["--managed-namespaces", ",".join(self.names)] if self.names else []


ALL = ManagedNamespaces()
