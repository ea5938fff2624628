"""How long to wait before the next try."""

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Backoff:
    """Waits that double, each between half and all of itself by chance: not all are to come back at once."""

    first_s: float
    most_s: float
    chance: Random
    tries: int = 0

    def next_s(self) -> float:
        """How long to wait this time."""
        whole_s: float = min(self.first_s * 2.0 ** min(self.tries, 30), self.most_s)
        self.tries += 1
        return whole_s * self.chance.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It went well."""
        self.tries = 0
