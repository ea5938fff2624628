"""Losses in a row: runs without progress count, others don't."""

from weir.control.port import KeepSuspension, PodExit, PodExited
from weir.model.policy import LifecyclePolicy
from weir.state.events import Checkpointed

from .harness import Scene, gang


def suspended(*, saves: bool) -> bool:
    """Return True if a workload whose runs are all lost is suspended; `saves`: each run saves a checkpoint."""
    scene = Scene(gang(pods=1), rules=LifecyclePolicy(pause_first=10.0, max_pause=40.0, max_failures=3))
    at_s = 0.0
    for losses in range(1, 61):
        starts = scene.starts("job")
        at_s += 5.0
        if saves:
            scene.step(Checkpointed("job", at_s), at_s=at_s)
        exits = [PodExited(pod, start, PodExit.LOST, at_s, own_loss=True) for pod, start in starts.items()]
        effects = scene.step(*exits, at_s=at_s)
        if any(isinstance(effect, KeepSuspension) for effect in effects):
            return True
        assert (scene.control.wakes_s is not None) == (losses > 1), "each try may evict other work"
        at_s = scene.control.wakes_s or at_s
        scene.step(at_s=at_s)
    return False


def test_workload_that_saves_a_checkpoint_in_each_run_is_not_suspended_by_losses() -> None:
    """It advances. For failures, only runs without a checkpoint are in a row, too."""
    assert suspended(saves=False)
    assert not suspended(saves=True)
