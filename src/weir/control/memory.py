"""What control remembers of one workload that isn't over."""

from enum import StrEnum

from weir.cluster.events import PodKey
from weir.control.limits import Watch
from weir.control.port import LifeCause


class Hold(StrEnum):
    """Why a workload may not be started."""

    FAILING = "its other pods are being stopped after one failed"
    PAUSE = "it failed and is tried again after a pause"
    FINISHING = "some of its pods are done"
    ENDING = "it is being ended"
    SUSPENDED = "it is suspended"


class Life:
    """One workload's life. `alive` are its pods whose last start, in `start_of`, hasn't exited."""

    __slots__ = (
        "alive",
        "done",
        "ending",
        "failed",
        "failures",
        "holds",
        "restarts",
        "settled",
        "start_of",
        "starts",
        "watch",
    )

    def __init__(self) -> None:
        self.starts = 0
        self.settled = 0
        self.failures = 0
        self.restarts = 0
        self.start_of: dict[PodKey, int] = {}
        self.alive: set[PodKey] = set()
        self.done: set[PodKey] = set()
        self.holds: dict[Hold, tuple[str, float | None]] = {}  # a sentence, and until when
        self.ending: LifeCause | None = None
        self.failed = ""  # how it failed last
        self.watch = Watch()
