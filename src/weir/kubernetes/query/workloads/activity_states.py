"""States of the measured workloads in one small answer, for pages that show many workloads."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from hashlib import blake2b

import msgspec

from weir.kubernetes.query.aggregation.discovery import API_VERSION
from weir.kubernetes.usage.cluster_use import MeasuredUse

_DIGEST_BYTES = 8
_Names = dict[str, list[str]]  # by state


class ActivityStates:
    """Answers with the states of a namespace or of all, encoded once for each reading.

    `measured` returns the workloads of the newest reading, and another mapping after each. An answer has a
    version, the digest of its states. It leaves out states that the requester has already.
    """

    def __init__(self, measured: Callable[[], Mapping[str, MeasuredUse]]) -> None:
        self._measured = measured
        # The reading that the other fields are computed from
        self._reading: Mapping[str, MeasuredUse] | None = None
        self._names: dict[str, _Names] = {}  # by namespace; "" for all namespaces
        self._encoded: dict[str, tuple[str, bytes]] = {}

    def answer(self, namespace: str, known_version: str) -> bytes:
        """Return the states of a namespace; `known_version` is the version that the requester has."""
        reading = self._measured()
        if reading is not self._reading:
            self._reading, self._names, self._encoded = reading, _by_namespace(reading), {}
        encoded = self._encoded.get(namespace)
        if encoded is None:
            encoded = _versioned(self._names.get(namespace, {}))
            if namespace in self._names:
                self._encoded[namespace] = encoded
        version, states = encoded
        return msgspec.json.encode(
            {
                "kind": "WorkloadList",
                "apiVersion": API_VERSION,
                "metadata": {},
                "items": [],
                "namespace": namespace,
                "version": version,
                "states": None if version == known_version else msgspec.Raw(states),
            }
        )


def _by_namespace(reading: Mapping[str, MeasuredUse]) -> dict[str, _Names]:
    """Return the names of workloads by namespace and state, in an order that all replicas share."""
    by_namespace: defaultdict[str, _Names] = defaultdict(dict)
    for name in sorted(reading):
        state = reading[name].activity.state
        if state is not None:
            for namespace in ("", name.partition("/")[0]):
                by_namespace[namespace].setdefault(state.value, []).append(name)
    return dict(by_namespace)


def _versioned(names: _Names) -> tuple[str, bytes]:
    states = msgspec.json.encode(names, order="sorted")
    return blake2b(states, digest_size=_DIGEST_BYTES).hexdigest(), states
