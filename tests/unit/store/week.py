"""A week of records: three projects on eight GPUs, with waits, evictions and reclaimed quotas."""

import random

from weir.control.port import SaveProgress, WorkloadProgress
from weir.store.records import DeviceUsageSample, HistoryEvent, UsageSample, UsageSamples, WorkloadUsageSample
from weir.store.store import Store

from .fixtures import end, submitted

DAY_S = 86400.0
OWNERS = {"vision": ("ann", "bob"), "speech": ("eve",)}
RULES = ("reclaim_quota", "reclaim_share", "preempt", "drained")


def record_week(store: Store, now_s: float, count: int = 60, node: str = "node") -> None:
    """Write seven days that end now. The same numbers come of the same `now_s`."""
    chance = random.Random(7)
    start_s = now_s - 7 * DAY_S
    for index in range(count):
        project = "vision" if index % 3 else "speech"
        user = chance.choice(OWNERS[project])
        at_s = start_s + index * 7 * DAY_S / count
        name = f"week-{index}"
        kept = store.workloads.submit(submitted(name, project, at_s, user=user)).result()
        uid, wait_s = kept.launch.uid, chance.choice((0.5, 30.0, 600.0, 7200.0))
        ran_s = 1800.0 + 60 * index
        progress = WorkloadProgress(1, 1, first_started_s=at_s + wait_s, ran_s=ran_s)
        store.journal.keep([SaveProgress(name, progress)], {})
        reported = []
        if index % 4 == 0:
            numbers = {"rule": RULES[index // 4 % 4], "lost_s": 90.0 + index, "gpus": 1.0, "ran_s": 0.0}
            reported.append(
                HistoryEvent(
                    at_s + 60, "stopped", f"{name} has stopped.", uid, name, project, numbers=numbers
                )
            )
        if index % 5 == 0:
            numbers = {"waited_s": 4.0 + index, "gpus": 1.0}
            reported.append(
                HistoryEvent(
                    at_s + 90, "quota_met", f"{project} got it.", uid, name, project, numbers=numbers
                )
            )
        store.events.record(reported)
        ended = end(
            name,
            min(now_s, at_s + wait_s + ran_s),
            ran_s=ran_s,
            started_s=at_s + wait_s,
            first_started_s=at_s + wait_s,
        )
        store.journal.keep([ended], {})
        use = UsageSample(
            project, "", user, "train", node, ran_s, ran_s, ran_s * 0.6, 0.0, 0.0, int(index % 4 == 0)
        )
        wait = UsageSample(project, "", user, "train", "", waiting_s=wait_s)
        own = WorkloadUsageSample(uid, node, ran_s, ran_s, ran_s * 0.6)
        device = DeviceUsageSample(node, index % 8, ran_s, ran_s, ran_s * 0.6)
        store.samples.add(UsageSamples(at_s, at_s + 3600, (use, wait), (own,), (device,)))
    store.probe()  # samples are written before it
