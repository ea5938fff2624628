"""Sixteen scripted workloads, each a stream of samples from a seed, with the truth about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from weir.model.activity import ActivitySample, DeviceUse, Interaction

EVERY_S = 15.0
QUIET = Interaction()


@dataclass(frozen=True)
class Profile:
    """A scripted workload. `idle_from_s` is when it is abandoned; None: it is never idle."""

    samples: list[ActivitySample]
    idle_from_s: float | None = None
    type: str = "train"
    run_ends_s: tuple[float, ...] = ()  # it fails then, and runs again
    quiet_device: tuple[str, float] | None = None  # a device without work, and since when


def _times(dice: Random, hours: float) -> Iterator[float]:
    """Yield times of samples: about every 15 s, and sometimes one is late."""
    at_s = 0.0
    while at_s < hours * 3600:
        at_s += EVERY_S * dice.uniform(0.9, 1.1) * (3 if dice.random() < 0.01 else 1)
        yield at_s


def _noise(dice: Random) -> float:
    """Return the use of a device that does nothing, as drivers report it."""
    return dice.choice((0.0, 0.0, 0.0, 0.01, 0.02))


def _sample(
    dice: Random,
    at_s: float,
    gpu: float | None = None,
    cores: float | None = None,
    disk: float = 0.0,
    blocked: int = 0,
    seen: Interaction | None = None,
) -> ActivitySample:
    """Return a sample of a workload with one device; what isn't given is quiet."""
    use = _noise(dice) if gpu is None else gpu
    idle_cores = dice.uniform(0.0, 0.012)
    return ActivitySample(
        at_s,
        (DeviceUse("GPU 0", use),),
        idle_cores if cores is None else cores,
        disk + dice.uniform(0.0, 2000.0),
        dice.uniform(0.0, 500.0),
        blocked,
        seen,
    )


def _phases(dice: Random, *lengths: tuple[float, float]) -> Callable[[float], int]:
    """Return the phase that a time lies in; phases repeat, with lengths from these ranges in minutes."""
    ends: list[float] = []
    at_s = 0.0
    while at_s < 8 * 3600:
        for low, high in lengths:
            at_s += 60 * dice.uniform(low, high)
            ends.append(at_s)

    def phase(at_s: float) -> int:
        return next(index for index, end_s in enumerate(ends) if at_s < end_s) % len(lengths)

    return phase


def evaluation_gaps(dice: Random) -> Profile:
    """Train, then evaluate on processors for up to 20 minutes, again and again."""
    phase = _phases(dice, (10, 25), (8, 20))
    return Profile(
        [
            _sample(dice, at_s, gpu=dice.uniform(0.6, 1.0), cores=1.0)
            if phase(at_s) == 0
            else _sample(dice, at_s, cores=dice.uniform(0.5, 4.0))
            for at_s in _times(dice, 2)
        ]
    )


def five_hour_download(dice: Random) -> Profile:
    """Nothing but bytes to a disk, with pauses of the server."""
    phase = _phases(dice, (10, 60), (0.2, 3))
    return Profile(
        [
            _sample(dice, at_s, cores=0.1, disk=dice.uniform(3e6, 4e7))
            if not phase(at_s)
            else _sample(dice, at_s)
            for at_s in _times(dice, 5)
        ]
    )


def compile_first(dice: Random) -> Profile:
    """Build extensions for most of an hour, then train."""
    until_s = dice.uniform(1800, 3600)
    return Profile(
        [
            _sample(dice, at_s, cores=dice.uniform(1, 16))
            if at_s < until_s
            else _sample(dice, at_s, gpu=0.9, cores=1)
            for at_s in _times(dice, 1.5)
        ]
    )


def _keys(dice: Random, within_s: tuple[float, float]) -> Callable[[float], Interaction]:
    last_s, next_s = 0.0, 0.0

    def seen(at_s: float) -> Interaction:
        nonlocal last_s, next_s
        while next_s <= at_s:
            last_s, next_s = next_s, next_s + dice.uniform(*within_s)
        return Interaction(last_s, 1)

    return seen


def debugger(dice: Random) -> Profile:
    """Stand at a breakpoint while a person steps, looks and thinks."""
    seen = _keys(dice, (5, 280))
    return Profile([_sample(dice, at_s, seen=seen(at_s)) for at_s in _times(dice, 2)])


def forgotten_notebook(dice: Random) -> Profile:
    """Work for a while in a notebook and leave; its kernel keeps the memory and a heartbeat."""
    gone_s, seen = dice.uniform(600, 2400), _keys(dice, (2, 90))
    samples = []
    for at_s in _times(dice, 2):
        if at_s < gone_s:
            busy = dice.random() < 0.3
            samples.append(_sample(dice, at_s, gpu=0.5 if busy else None, cores=0.3, seen=seen(at_s)))
            left = replace(seen(at_s), open=0)
        else:
            samples.append(_sample(dice, at_s, cores=dice.uniform(0.0, 0.02), seen=left))
    return Profile(samples, gone_s, "build")


def idle_rank(dice: Random) -> Profile:
    """Run eight ranks, of which one does nothing from some time on."""
    since_s, quiet = dice.uniform(0, 1800), dice.randrange(8)
    samples = []
    for at_s in _times(dice, 1.5):
        uses = [
            DeviceUse(
                f"rank {rank}", _noise(dice) if rank == quiet and at_s >= since_s else dice.uniform(0.7, 1)
            )
            for rank in range(8)
        ]
        samples.append(ActivitySample(at_s, tuple(uses), 9.0, 0.0, 0.0))
    return Profile(samples, quiet_device=(f"rank {quiet}", since_s))


def mig(dice: Random) -> Profile:
    """Work on an instance whose use the driver doesn't report, or do nothing on it."""
    cores = dice.choice((0.0, 1.0))
    samples = (_sample(dice, at_s, cores=cores) for at_s in _times(dice, 1.5))
    return Profile([replace(sample, devices=(DeviceUse("GPU 0", None),)) for sample in samples])


def loading_stall(dice: Random) -> Profile:
    """Train in bursts between long reads from a slow disk."""
    phase = _phases(dice, (2, 8), (5, 30))
    return Profile(
        [
            _sample(dice, at_s, gpu=0.8, cores=2, disk=1e8)
            if phase(at_s) == 0
            else _sample(dice, at_s, cores=dice.uniform(0.02, 0.2), disk=dice.uniform(2e5, 5e6))
            for at_s in _times(dice, 2)
        ]
    )


def checkpoint_writing(dice: Random) -> Profile:
    """Train, and write a large checkpoint for up to 15 minutes."""
    phase = _phases(dice, (10, 20), (5, 15))
    return Profile(
        [
            _sample(dice, at_s, gpu=0.9, cores=1)
            if phase(at_s) == 0
            else _sample(dice, at_s, cores=0.2, disk=dice.uniform(1e8, 9e8))
            for at_s in _times(dice, 2)
        ]
    )


def sleeping_script(dice: Random) -> Profile:
    """Finish the work, keep the memory, and sleep."""
    done_s = dice.uniform(60, 2400)
    return Profile(
        [
            _sample(dice, at_s, gpu=0.9, cores=1) if at_s < done_s else _sample(dice, at_s)
            for at_s in _times(dice, 2)
        ],
        done_s,
    )


def preprocessing(dice: Random) -> Profile:
    """Prepare data on processors alone, with devices held."""
    return Profile([_sample(dice, at_s, cores=dice.uniform(0.5, 30)) for at_s in _times(dice, 2)])


def periodic_bursts(dice: Random) -> Profile:
    """Compute for a moment every few minutes."""
    next_s, samples = 0.0, []
    for at_s in _times(dice, 2):
        burst = at_s >= next_s
        next_s = at_s + dice.uniform(40, 240) if burst else next_s
        samples.append(_sample(dice, at_s, gpu=dice.uniform(0.2, 1) if burst else None))
    return Profile(samples)


def nfs_stall(dice: Random) -> Profile:
    """Wait for a file server that doesn't answer for most of an hour."""
    phase = _phases(dice, (5, 15), (20, 50))
    return Profile(
        [
            _sample(dice, at_s, gpu=0.9, cores=1)
            if phase(at_s) == 0
            else _sample(dice, at_s, blocked=dice.randint(1, 4))
            for at_s in _times(dice, 2)
        ]
    )


def crash_loop(dice: Random) -> Profile:
    """Fail soon after each start, and start again after a pause."""
    ends, at_s = [], 0.0
    while at_s < 3600:
        at_s += dice.uniform(20, 240)
        ends.append(at_s)
    return Profile([_sample(dice, at_s) for at_s in _times(dice, 1)], run_ends_s=tuple(ends))


def shell_in_use(dice: Random) -> Profile:
    """Type in a shell on a session with a GPU."""
    seen = _keys(dice, (1, 200))
    samples = [
        _sample(dice, at_s, gpu=0.4 if dice.random() < 0.02 else None, cores=0.02, seen=seen(at_s))
        for at_s in _times(dice, 2)
    ]
    return Profile(samples, type="build")


def rare_requests(dice: Random) -> Profile:
    """Answer a request every ten minutes or so, at most 40 minutes apart."""
    next_s, samples = 0.0, []
    for at_s in _times(dice, 4):
        request = at_s >= next_s
        next_s = at_s + dice.uniform(120, 2400) if request else next_s
        samples.append(_sample(dice, at_s, gpu=dice.uniform(0.15, 0.9) if request else None))
    return Profile(samples, type="inference")


PROFILES: tuple[Callable[[Random], Profile], ...] = (
    *(evaluation_gaps, five_hour_download, compile_first, debugger, forgotten_notebook, idle_rank, mig),
    *(loading_stall, checkpoint_writing, sleeping_script, preprocessing, periodic_bursts, nfs_stall),
    *(crash_loop, shell_in_use, rare_requests),
)
