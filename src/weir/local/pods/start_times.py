"""Times of a start on the server's timeline.

Supervisors and jobs are other processes, and anyone of the same user may write their files. A time in them
is clamped between the start and now.
"""

from weir.control.clock import Clock
from weir.local.pods.running_pods import RunningPod
from weir.local.records import pod_files
from weir.local.records.pod_records import StartRecord, TimeBounds


class StartTimes:
    """Converts times of starts to the server's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def span(self, begun: RunningPod | StartRecord) -> TimeBounds:
        """Return the times between the start and now, as bounds for messages."""
        return TimeBounds(
            begun.at_s, max(begun.at_s, self.latest_s(begun)), begun.boot_s, self._clock.ahead_s
        )

    def latest_s(self, begun: RunningPod | StartRecord) -> float:
        """Return the latest time at which a start can have ended: now, or the boot after it."""
        now_s, until_s = self._clock(), self._clock.until_s
        if until_s is None or begun.boot in ("", pod_files.boot()):
            return now_s
        return min(now_s, max(until_s, begun.at_s))

    def now_s(self) -> float:
        """Return the time now."""
        return self._clock()
