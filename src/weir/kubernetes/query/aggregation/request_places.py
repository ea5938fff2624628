"""Places for the requests under way: a number for all people, and a smaller one for each of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from weir.kubernetes.query.aggregation.refusals import too_many, too_many_of_one


class RequestPlaces:
    """Places of requests. Belongs to the event loop."""

    def __init__(self, most: int, of_one_max: int) -> None:
        self._most = most
        self._of_one_max = of_one_max
        self._taken: Counter[str] = Counter()  # by person

    @contextmanager
    def taken(self, person: str) -> Iterator[None]:
        """Take a place for the request of a person.

        Raises:
            QueryRefused: none is free, or this person has too many.
        """
        if self._taken.total() >= self._most:
            raise too_many()
        if self._taken[person] >= self._of_one_max:
            raise too_many_of_one(self._of_one_max)
        self._taken[person] += 1
        try:
            yield
        finally:
            self._taken -= Counter({person: 1})
