"""The simulated world: how jobs run, save, are stopped and go on. A test is its control."""

from weir.control.port import LifecycleCause, LifecycleRule, PodExit, PodExited, StartPod, StopPod
from weir.simulation.job_trace import JobTrace
from weir.simulation.simulated_cluster import SimulatedCluster
from weir.state.events import Checkpointed, Placement, PodKey

from .fixtures import cluster, job

CAUSE = LifecycleCause(LifecycleRule.WITHDRAWN, "a test says so")


class Stage:
    """A world, and the test in the place of control."""

    def __init__(self, *job_traces: JobTrace) -> None:
        self.world = SimulatedCluster(cluster(nodes=2), job_traces)
        self._starts = 0
        self._start_of: dict[PodKey, int] = {}
        self.world.advance_to(0.0)
        self.world.events()

    def start(self, name: str, *indices: int) -> None:
        """Start pods of a job, each on a device of its own."""
        for index in indices or (0,):
            self._starts += 1
            pod = PodKey(name, 0, index)
            self._start_of[pod] = self._starts
            self.world.apply([StartPod(Placement(pod, "node-0", (index,)), self._starts)])

    def stop(self, name: str, *indices: int) -> None:
        """Stop pods of a job."""
        pods = [PodKey(name, 0, index) for index in indices or (0,)]
        self.world.apply([StopPod(pod, self._start_of[pod], 0.0, CAUSE) for pod in pods])
        self.world.events()

    def until(self, at_s: float) -> list[str]:
        """Return the events until then, in short."""
        reported = []
        while (next_s := self.world.next_s()) is not None and next_s <= at_s:
            self.world.advance_to(next_s)
            for fact in self.world.events():
                if isinstance(fact, Checkpointed):
                    reported.append(f"{fact.at_s:g} saved")
                elif isinstance(fact, PodExited):
                    reported.append(f"{fact.at_s:g} {fact.pod.index} {fact.how}")
        self.world.advance_to(at_s)
        return reported


def test_job_runs_for_its_duration() -> None:
    """And ends once."""
    stage = Stage(job("job", 100.0))
    stage.start("job")
    assert stage.until(1000.0) == ["100 0 done"]


def test_saves_at_every_multiple_since_it_started() -> None:
    """Not at the end: there is nothing to resume."""
    stage = Stage(job("job", 90.0, save_every_s=30.0))
    stage.until(5.0)
    stage.start("job")
    assert stage.until(1000.0) == ["35 saved", "65 saved", "95 0 done"]


def test_stopped_job_goes_back_to_its_last_saved_state() -> None:
    """100 s of run, 30 kept, 15 lost."""
    stage = Stage(job("job", 100.0, save_every_s=30.0))
    stage.start("job")
    stage.until(45.0)
    stage.stop("job")
    assert stage.world.lost_gpu_s == 15.0
    stage.until(50.0)
    stage.start("job")
    assert stage.until(1000.0) == ["80 saved", "110 saved", "120 0 done"]


def test_restart_costs_run() -> None:
    """Each time, and not what a saved state already had of it."""
    stage = Stage(job("job", 100.0, save_every_s=30.0, restart_s=10.0))
    stage.start("job")
    stage.until(45.0)
    stage.stop("job")
    stage.start("job")
    assert stage.until(1000.0)[-1] == "125 0 done"


def test_gang_runs_only_while_it_is_complete() -> None:
    """Its run starts with its last pod."""
    stage = Stage(job("job", 100.0, pods=2))
    stage.start("job", 0)
    stage.until(50.0)
    stage.start("job", 1)
    assert stage.until(1000.0) == ["150 0 done", "150 1 done"]


def test_elastic_job_runs_as_fast_as_the_part_of_its_pods() -> None:
    """Half its pods, half its speed."""
    stage = Stage(job("job", 100.0, pods=4, least=2))
    stage.start("job", 0, 1)
    stage.until(100.0)
    stage.start("job", 2, 3)
    assert stage.until(1000.0)[0] == "150 0 done"


def test_elastic_job_that_shrinks_to_its_minimum_loses_nothing() -> None:
    """Only a broken gang does."""
    stage = Stage(job("job", 100.0, pods=2, least=1))
    stage.start("job", 0, 1)
    stage.until(50.0)
    stage.stop("job", 1)
    assert stage.world.lost_gpu_s == 0.0
    assert stage.until(1000.0) == ["150 0 done"]


def test_pod_on_a_node_that_is_gone_never_ran() -> None:
    """It is noticed, a little later."""
    stage = Stage(job("job", 100.0))
    pod = PodKey("job", 0, 0)
    stage.world.apply([StartPod(Placement(pod, "nowhere", (0,)), 1)])
    assert stage.until(10.0) == [f"1 0 {PodExit.LOST}"]


def test_repeated_effects_do_no_harm() -> None:
    """A start carried out before, a stop of a start that is over."""
    stage = Stage(job("job", 100.0))
    stage.start("job")
    stage.world.apply([StartPod(Placement(PodKey("job", 0, 0), "node-0", (0,)), 1)])
    stage.until(10.0)
    stage.stop("job")
    stage.start("job")
    stage.world.apply([StopPod(PodKey("job", 0, 0), 1, 0.0, CAUSE)])
    assert stage.until(1000.0) == ["110 0 done"]
