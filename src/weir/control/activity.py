"""Classification of activity: samples of a run are turned into a state.

A workload works if any of its devices was used within the window. Signs of life besides its devices are means
over the window, so that a stray moment counts for little. It is idle once a whole window without a gap shows
neither. An idle state ends by a clear sign, or by two weak ones, so that a value near the threshold doesn't
alternate between two states.
"""

from collections import deque
from typing import Final, NamedTuple

from weir.model.activity import IDLE, Activity, ActivitySample, Signal

CORES_MIN: Final = 0.05
"""Cores in use from which processors count as busy: an idle kernel or editor needs less."""
DISK_MIN: Final = 65_536.0
"""Bytes per second from which disks count as busy."""
NETWORK_MIN: Final = 16_384.0
"""Bytes per second from which the network counts as busy."""
GAP_S_MAX: Final = 60.0
"""Gap between two samples after which the time between them counts as unknown."""
CLEAR: Final = 2.0
"""Multiple of a threshold at which a use ends an idle state at once."""


class ActivityReading(NamedTuple):
    """State of a workload after a sample. `state` is None until a window is complete.

    `quiet_s` is the measured time without a sign of life. `quiet_devices` are measured devices without use,
    while other devices of the workload are used.
    """

    state: Activity | None
    signals: tuple[Signal, ...] = ()
    quiet_s: float = 0.0
    quiet_devices: tuple[str, ...] = ()


class _Flow:
    """Averages a rate over the window."""

    __slots__ = ("_parts", "_sum", "_time_s")

    def __init__(self) -> None:
        self._parts: deque[tuple[float, float, float]] = deque()  # end, length and amount of each part
        self._sum = 0.0
        self._time_s = 0.0

    def add(self, at_s: float, length_s: float, rate: float | None, window_s: float) -> None:
        """Add the rate of the time before `at_s`; forget rates from before the window."""
        if rate is not None and length_s > 0:
            amount = rate * length_s
            self._parts.append((at_s, length_s, amount))
            self._sum += amount
            self._time_s += length_s
        while self._parts and self._parts[0][0] <= at_s - window_s:
            _, length, amount = self._parts.popleft()
            self._sum -= amount
            self._time_s -= length

    def mean(self) -> float:
        """Return the mean of the window; 0 without any measurement."""
        return max(0.0, self._sum) / self._time_s if self._time_s > 0 else 0.0


class ActivityWindow:
    """Samples of a run of a workload, as long as its state depends on them."""

    __slots__ = (
        *("_begun_s", "_blocked_s", "_cores", "_disk", "_last_s", "_network", "_state"),
        *("_unmeasured_s", "_used_s", "_weak_s"),
    )

    def __init__(self) -> None:
        self._restart()
        self._state: Activity | None = None

    def _restart(self) -> None:
        """Drop all evidence, so that the time before now is unknown."""
        self._cores, self._disk, self._network = _Flow(), _Flow(), _Flow()
        self._used_s: dict[str, float] = {}  # last use by device
        self._weak_s: dict[str, float] = {}  # last weak use in an idle state, by device
        self._unmeasured_s: dict[str, float] = {}  # last sample without its use, by device
        self._blocked_s: float | None = None
        self._begun_s: float | None = None
        self._last_s: float | None = None

    def add(
        self, sample: ActivitySample, *, window_s: float, below: float, interactive: bool
    ) -> ActivityReading:
        """Add a sample and return the state.

        `below` is the utilization under which a device counts as quiet. `interactive` workloads may be idle
        because their person is away.
        """
        at_s, last_s = sample.at_s, self._last_s
        if last_s is not None and at_s <= last_s:
            return ActivityReading(self._state)
        if last_s is None or at_s - last_s > max(GAP_S_MAX, window_s / 4):
            self._restart()
        self._last_s = at_s
        if self._begun_s is None:
            self._begun_s = at_s
        length_s = 0.0 if last_s is None else at_s - last_s
        self._note_devices(sample, below, window_s)
        for flow, rate in (
            (self._cores, sample.cores),
            (self._disk, sample.disk),
            (self._network, sample.network),
        ):
            flow.add(at_s, length_s if at_s > self._begun_s else 0.0, rate, window_s)
        if sample.blocked:
            self._blocked_s = at_s
        reading = self._reading(sample, window_s, interactive)
        if reading.state is not None:
            self._state = reading.state
        return reading

    def _note_devices(self, sample: ActivitySample, below: float, window_s: float) -> None:
        """Record the used devices; in an idle state, a weak use counts from the second one on."""
        idle = self._state in IDLE
        for device in sample.devices:
            if device.use is None:
                self._unmeasured_s[device.name] = sample.at_s
            if device.use is None or device.use < below:
                continue
            weak_s = self._weak_s.get(device.name)
            if not idle or device.use >= CLEAR * below or (weak_s and sample.at_s - weak_s <= window_s):
                self._used_s[device.name] = sample.at_s
                self._weak_s.pop(device.name, None)
            else:
                self._weak_s[device.name] = sample.at_s

    def _reading(self, sample: ActivitySample, window_s: float, interactive: bool) -> ActivityReading:
        at_s, begun_s = sample.at_s, self._begun_s
        assert begun_s is not None
        since_s = at_s - window_s
        covered = begun_s <= since_s
        if any(used_s > since_s for used_s in self._used_s.values()):
            quiet = [
                device.name for device in sample.devices if self._is_quiet(device.name, begun_s, since_s)
            ]
            return ActivityReading(Activity.WORKING, quiet_devices=tuple(quiet) if covered else ())
        if not sample.devices or any(
            device.use is None or not device.is_evidence for device in sample.devices
        ):
            self._begun_s = at_s  # the time without measurements is no evidence
            return ActivityReading(Activity.UNKNOWN)
        signals = self._signals(sample, since_s)
        if signals:
            return ActivityReading(Activity.STARVED, signals)
        if not covered:
            return ActivityReading(self._state if self._state in IDLE else None)
        seen = sample.interaction
        gone = interactive and seen is not None and not seen.open
        return ActivityReading(Activity.LEFT if gone else Activity.PARKED, quiet_s=window_s)

    def _is_quiet(self, device: str, begun_s: float, since_s: float) -> bool:
        """Return True if a device was measured and not used; one without measurements is unknown."""
        last_s = max(self._used_s.get(device, begun_s), self._unmeasured_s.get(device, begun_s))
        return last_s <= since_s

    def _signals(self, sample: ActivitySample, since_s: float) -> tuple[Signal, ...]:
        times = CLEAR if self._state in IDLE else 1.0
        signals = [
            signal
            for signal, flow, least in (
                (Signal.CPU, self._cores, CORES_MIN),
                (Signal.DISK, self._disk, DISK_MIN),
                (Signal.NETWORK, self._network, NETWORK_MIN),
            )
            if flow.mean() >= least * times
        ]
        if self._blocked_s is not None and self._blocked_s > since_s:
            signals.append(Signal.BLOCKED)
        seen = sample.interaction
        if seen is not None and seen.last_s is not None and seen.last_s > since_s:
            signals.append(Signal.USER)
        return tuple(signals)
