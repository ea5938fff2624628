"""Limits of concurrent requests: a number for all, and a smaller one for each person or namespace."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from weir.kubernetes.query.aggregation.refusals import too_many, too_many_of_one


class RequestPlaces:
    """Places of requests. Belongs to the event loop."""

    def __init__(self, most: int, of_one_max: int) -> None:
        self._most = most
        self._of_one_max = of_one_max
        self._taken: Counter[str] = Counter()  # by person or namespace

    @contextmanager
    def taken(self, requester: str) -> Iterator[None]:
        """Take a place for a request of a person or namespace.

        Raises:
            QueryRefused: none is free, or this one has too many.
        """
        if self._taken.total() >= self._most:
            raise too_many()
        if self._taken[requester] >= self._of_one_max:
            raise too_many_of_one(self._of_one_max)
        self._taken[requester] += 1
        try:
            yield
        finally:
            self._taken -= Counter({requester: 1})
