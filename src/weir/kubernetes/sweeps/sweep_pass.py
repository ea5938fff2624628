"""Pass over a sweep: observe its Jobs, decide, write the decision, and create the Jobs."""

import json
from typing import Any

import msgspec

from weir.api.sweep_submissions import SweepSubmission
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import AlreadyExists, ApiRefused, NotFound
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.crd.sweep_objects import (
    FAILED,
    FINISHED,
    LIVE,
    PARKED,
    PLURAL,
    RUNNING,
    STOPPED,
    STOPPED_TRIAL,
    SweepObject,
    SweepStatus,
    SweepTrial,
)
from weir.kubernetes.sweeps.observed_jobs import ObservedJobs, TrialObject
from weir.kubernetes.sweeps.progress import SweepProgress
from weir.kubernetes.sweeps.sampler_thread import SamplerThread
from weir.kubernetes.sweeps.termination_results import TrialRunView, new_results
from weir.kubernetes.sweeps.trial_costs import TrialCosts
from weir.kubernetes.sweeps.trial_jobs import job_name, read_sweep, trial_job
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard
from weir.model.resources import quantity
from weir.sweeps.past_trials import SamplerUnavailable
from weir.sweeps.restart_cost import restart_cost_s
from weir.sweeps.samplers import suggest

JOBS = "batch/v1"
PENDING_MAX = 2
"""Trials of a sweep that wait for capacity: a sweep uses free capacity only."""
MESSAGE_MAX = 1000
UID_LABEL = "batch.kubernetes.io/controller-uid"
_UNCHANGED_AFTER_END = (FINISHED, STOPPED, FAILED)
_INVALID = (400, 422)


class SweepFailed(Exception):
    """The sweep has failed; the message is its reason."""


class SweepWaits(Exception):
    """The sweep has to wait; the message is its reason."""


class SweepPass:
    """A single pass. `client` reads lists, `account` is the namespace and name of Weir's service account.

    Parameters are chosen in `samplers`.
    """

    def __init__(
        self,
        api: LeaderGuard,
        client: ApiClient,
        observed: ObservedJobs,
        costs: TrialCosts,
        account: str,
        samplers: SamplerThread,
    ) -> None:
        self._api = api
        self._client = client
        self._observed = observed
        self._costs = costs
        self._account = account
        self._samplers = samplers
        # Counted evicted pods by Job, whose seconds aren't written yet
        self._counted: dict[str, tuple[str, ...]] = {}

    async def run(self, namespace: str, name: str) -> bool:
        """Go on with a sweep; return True if nothing is left to be done for it.

        Raises:
            SweepWaits: it is to be tried again later.
            ApiError: the API server refuses a request or doesn't answer.
        """
        try:
            sweep = await self._api.get(path_of(API_VERSION, PLURAL, namespace, name), SweepObject)
        except NotFound:
            return True
        if sweep.metadata.deletion_timestamp is not None:
            return True
        if sweep.status.phase in _UNCHANGED_AFTER_END:
            await self._clear(sweep)
            return True
        try:
            return await self._go_on(sweep)
        except SweepFailed as error:
            return await self._end(sweep, FAILED, str(error))
        except SweepWaits as error:
            if sweep.status.message != str(error):
                sweep.status.message = str(error)
                await self._write(sweep)
            raise

    async def _go_on(self, sweep: SweepObject) -> bool:
        try:
            plan = read_sweep(sweep)
            progress = SweepProgress(plan, sweep.status.trials)
        except (ValueError, TypeError, AssertionError) as error:
            raise SweepFailed(f"It can't be read. {error}") from None
        changed = await self._observe(sweep, progress)
        if sweep.spec.stop:
            return await self._end(sweep, STOPPED, "It was stopped.", progress)
        if progress.has_failed:
            first = job_name(sweep.metadata.name, 0, 0)
            hint = f"kubectl logs -n {sweep.metadata.namespace} job/{first}"
            return await self._end(sweep, FAILED, f"Its first trials have all failed: {hint}", progress)
        changed |= await self._decide(sweep, plan, progress)
        if not progress.live:
            return await self._end(sweep, FINISHED, progress.outcome(), progress)
        if changed or sweep.status.phase != RUNNING:
            sweep.status.phase = RUNNING
            await self._write(sweep, progress)
        self._tell_costs(sweep, progress)
        await self._start(sweep, plan, progress)
        if sweep.status.message:  # the obstacle is gone
            sweep.status.message = ""
            await self._write(sweep, progress)
        return False

    # Facts

    async def _observe(self, sweep: SweepObject, progress: SweepProgress) -> bool:
        """Process the Jobs of the live trials; return True if the status has changed."""
        changed = False
        for number in progress.live:
            trial = progress.trials[number]
            changed |= self._count_evicted(sweep, number, trial)
            job = await self._job(sweep, number, trial)
            if job is None:
                if trial.job:
                    progress.stop(number)  # its Job was deleted
                    changed = True
                continue
            if not trial.job:
                trial.job, changed = job.metadata.uid, True
            if job.is_over:
                path = path_of("v1", "pods", sweep.metadata.namespace)
                selector = f"{UID_LABEL}={job.metadata.uid}"
                runs = await self._client.list_all(path, TrialRunView, label_selector=selector)
                results, seconds = new_results(runs, progress.plan.rungs, len(trial.results))
                progress.end_run(number, results, seconds, failed=job.has_failed)
                changed = True
        return changed

    def _count_evicted(self, sweep: SweepObject, number: int, trial: SweepTrial) -> bool:
        """Add the seconds of deleted pods to a trial; return True if there are any."""
        key = f"{sweep.metadata.namespace}/{job_name(sweep.metadata.name, number, trial.target)}"
        evicted_s = self._observed.evicted_s(key)
        trial.seconds += sum(evicted_s.values())
        if evicted_s:
            self._counted[key] = tuple(evicted_s)
        return bool(evicted_s)

    async def _job(self, sweep: SweepObject, number: int, trial: SweepTrial) -> TrialObject | None:
        """Return the Job of a live trial; None if there is none.

        Raises:
            SweepFailed: another object has its name.
        """
        name = job_name(sweep.metadata.name, number, trial.target)
        job = self._observed.jobs.get(f"{sweep.metadata.namespace}/{name}")
        if job is None and trial.job:  # the watch may be late
            job = await self._read_job(sweep.metadata.namespace, name)
        if job is not None and not job.belongs_to(sweep.metadata.uid):
            raise SweepFailed(
                f"There is a Job {name} that isn't of this sweep: begin the sweep under another name."
            )
        return job

    async def _read_job(self, namespace: str, name: str) -> TrialObject | None:
        try:
            return await self._api.get(path_of(JOBS, "jobs", namespace, name), TrialObject)
        except NotFound:
            return None

    # Decisions

    async def _decide(self, sweep: SweepObject, plan: SweepSubmission, progress: SweepProgress) -> bool:
        """Promote trials and add new ones, up to the pending ones that it may have."""
        placed = self._observed.placed()
        pending = sum(self._job_key(sweep, number, progress) not in placed for number in progress.live)
        changed = False
        while pending < PENDING_MAX and (plan.parallel is None or len(progress.live) < plan.parallel):
            promotion = progress.promotion()
            if promotion is not None:
                progress.promote(promotion)
            elif not progress.is_exhausted:
                progress.trials.append(await self._suggested(sweep.metadata.namespace, plan, progress))
            else:
                break
            pending, changed = pending + 1, True
        return changed

    def _tell_costs(self, sweep: SweepObject, progress: SweepProgress) -> None:
        """State the cost of stopping each running trial: the least likely to be promoted first."""
        namespace, placed = sweep.metadata.namespace, self._observed.placed()
        names = {number: self._job_key(sweep, number, progress) for number in progress.live}
        prospects = progress.prospects([number for number, key in names.items() if key in placed])
        devices, base_s = gpus_of(sweep), self._costs.base_s()
        costs_s: dict[str, float] = {}
        for number, prospect in prospects.items():
            workload = f"{namespace}/job-{names[number].partition('/')[2]}"
            costs_s[workload] = restart_cost_s(base_s, prospect, devices)
        self._costs.tell(f"{namespace}/{sweep.metadata.name}", costs_s)

    @staticmethod
    def _job_key(sweep: SweepObject, number: int, progress: SweepProgress) -> str:
        name = job_name(sweep.metadata.name, number, progress.trials[number].target)
        return f"{sweep.metadata.namespace}/{name}"

    async def _suggested(self, namespace: str, plan: SweepSubmission, progress: SweepProgress) -> SweepTrial:
        """Return a new trial, whose parameters are chosen in the thread of samplers."""
        number = len(progress.trials)
        try:
            suggestion = await self._samplers.run(
                namespace,
                lambda: suggest(plan.sampler, plan.space(), plan.seed, number, progress.past()),
            )
        except SamplerUnavailable as error:
            raise SweepFailed(str(error)) from None
        except Exception as error:  # noqa: BLE001 - whatever is wrong, the other sweeps go on
            raise SweepFailed(f"sampler {plan.sampler} can't choose parameters: {error}") from None
        state = json.dumps(dict(suggestion.state)) if suggestion.state else ""
        return SweepTrial(json.dumps(dict(suggestion.params)), sampler_state=state)

    # Writes

    async def _start(self, sweep: SweepObject, plan: SweepSubmission, progress: SweepProgress) -> None:
        """Make the Jobs of the live trials that have none."""
        namespace = sweep.metadata.namespace
        for number in progress.live:
            trial = progress.trials[number]
            name = job_name(sweep.metadata.name, number, trial.target)
            if trial.job or f"{namespace}/{name}" in self._observed.jobs:
                continue
            try:
                body = trial_job(sweep, plan, number, trial)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise SweepFailed(f"The Job of a trial can't be made: {error}") from None
            try:
                made = await self._api.post(path_of(JOBS, "jobs", namespace), body, TrialObject)
            except AlreadyExists:
                continue  # left to the next pass
            except ApiRefused as error:
                raise self._refused(namespace, error) from None
            self._observed.jobs.setdefault(f"{namespace}/{name}", made)

    def _refused(self, namespace: str, error: ApiRefused) -> Exception:
        if error.status in _INVALID:
            return SweepFailed(f"The Job of a trial is refused: {error.message[:MESSAGE_MAX]}")
        if error.status == 403:
            hint = (
                f"kubectl create rolebinding weir-sweeps -n {namespace} --clusterrole=weir-sweeps "
                f"--serviceaccount={self._account} allows it"
            )
            return SweepWaits(f"Weir may not make Jobs here: {hint}. {error.message[:MESSAGE_MAX]}")
        return error

    async def _write(self, sweep: SweepObject, progress: SweepProgress | None = None) -> None:
        """Write the status over the version that was read."""
        status = sweep.status
        if progress is not None:
            status.best = progress.best_words()
            status.progress = f"{len(progress.trials)}/{progress.plan.trials_max}"
        fields: dict[str, Any] = dict.fromkeys(_FIELDS)
        fields |= msgspec.to_builtins(status)
        body = {"metadata": {"resourceVersion": sweep.metadata.resource_version}, "status": fields}
        path = path_of(API_VERSION, PLURAL, sweep.metadata.namespace, sweep.metadata.name, "status")
        written = await self._api.patch(path, body, Patch.MERGE, SweepObject)
        sweep.metadata.resource_version = written.metadata.resource_version
        while self._counted:
            self._observed.forget_evicted(*self._counted.popitem())

    async def _end(
        self, sweep: SweepObject, phase: str, sentence: str, progress: SweepProgress | None = None
    ) -> bool:
        """Write down that a sweep is over, then delete the Jobs that aren't."""
        status = sweep.status
        status.phase, status.message = phase, sentence[:MESSAGE_MAX]
        status.ended_at = moment(self._api.clock())
        await self._write(sweep, progress)
        await self._clear(sweep)
        return True

    async def _clear(self, sweep: SweepObject) -> None:
        """Delete the Jobs of live trials of a sweep that is over."""
        self._costs.tell(sweep.metadata.key, {})
        left = [trial for trial in sweep.status.trials if trial.state in (LIVE, PARKED)]
        if not left:
            return
        namespace = sweep.metadata.namespace
        for number, trial in enumerate(sweep.status.trials):
            if trial.state != LIVE:
                continue
            name = job_name(sweep.metadata.name, number, trial.target)
            job = await self._read_job(namespace, name)
            if job is not None and job.belongs_to(sweep.metadata.uid):
                path = path_of(JOBS, "jobs", namespace, name)
                await self._api.delete(path, uid=job.metadata.uid, propagation="Background")
        for trial in left:
            trial.state = STOPPED_TRIAL
        await self._write(sweep)


def gpus_of(sweep: SweepObject) -> float:
    """Return the GPUs of a trial; 0 if they can't be read."""
    try:
        return float(quantity(sweep.spec.gpus or "0"))
    except ValueError:
        return 0.0


_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(SweepStatus))
