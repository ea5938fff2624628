"""States of work on a real GPU, and what becomes of idle work."""

from weir.local.machine.devices import Nvml

from .gpu_pool import GpuPool, until


def test_each_job_on_a_shared_gpu_has_its_own_state(pool: GpuPool) -> None:
    profiles = {
        "computes": ("hold:512", "spin:600"),
        "now-and-then": ("hold:512", "burst:500:3000:600"),
        "loads": ("hold:512", "cpu:600"),
        "forgotten": ("hold:512", "sleep:600"),
    }
    for name, words in profiles.items():
        pool.start(name, *words, gpus=0.25)
    expected = {
        "computes": "working",
        "now-and-then": "working",
        "loads": "starved",
        "forgotten": "parked",
    }
    until(
        lambda: {name: pool.state(name) for name in profiles} == expected,
        lambda: {name: pool.story(name) for name in profiles},
    )


def test_rare_work_on_a_whole_gpu_is_never_idle(pool: GpuPool) -> None:
    pool.start("evaluates", "hold:512", "burst:700:5000:600")
    pool.says("evaluates", "hold")
    until(lambda: pool.state("evaluates") is not None)
    seen: set[str | None] = set()
    until(lambda: seen.add(pool.state("evaluates")) or (pool.pool.get("evaluates").ran_s or 0) > 60)
    assert seen == {"working"}, seen


def test_the_gpu_of_forgotten_work_goes_to_the_next_request(pool: GpuPool, driver: Nvml) -> None:
    pool.start("forgotten", "hold:4096", "sleep:600")
    pool.says("forgotten", "hold")

    def kinds() -> list[str]:
        return [event.kind for event in pool.pool.events(workload="forgotten")]

    until(lambda: "protection_lost" in kinds(), kinds)
    assert kinds().count("idle_warning") >= 1
    pool.start("works", "fill", "spin:5")
    pool.until("forgotten", "pending")
    assert (reason := pool.pool.get("forgotten").reason) is not None
    assert reason.why == "suspended"
    pool.until("works", "succeeded")
    filled = next(int(line.split()[1]) for line in pool.log("works").splitlines() if "fill" in line)
    memory = driver.devices()[0].memory >> 20
    assert filled > 0.9 * memory, "the memory of the evicted job was free when this one began"
