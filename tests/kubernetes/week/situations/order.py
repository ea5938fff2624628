"""Work that starts at a time, or after other work."""

from datetime import UTC, datetime, timedelta

from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.objects import job
from tests.kubernetes.week.situations.jobs import path
from tools.controlplane.api import Object

KEPT_STEPS = 30
CONDITIONS = ("after", "after-ok", "after-not-ok", "after-any")


def begin(env: Environment) -> str:
    """Submit a Job that begins some seconds later."""
    return env.create(_job(env, env.space(), "begins", {"begin": _in_s(env.chance.uniform(3, 15))}))


def begin_sooner(env: Environment) -> str:
    """Submit a Job for tomorrow, and change its mind."""
    made = _job(env, env.space(), "tomorrow", {"begin": _in_s(86_400)})
    sooner: Object = {"metadata": {"annotations": {"weir.dev/begin": _in_s(0)}}}
    env.after(5, "begin sooner", lambda: env.patch(path(made), sooner))
    return env.create(made)


def after(env: Environment) -> str:
    """Submit a Job that starts after another, by one of the conditions."""
    found = env.pick(env.objects("jobs"))
    if found is None:
        return ""
    metadata = found["metadata"]
    made = _job(env, metadata["namespace"], "dependent", {env.chance.choice(CONDITIONS): metadata["name"]})
    _end_later(env, made)
    return f"{env.create(made)} after {metadata['name']}"


def after_missing(env: Environment) -> str:
    """Submit a Job that starts after one that comes later."""
    within, name = env.space(), env.name("later")
    made = _job(env, within, "waits", {"after-any": name})
    awaited = job(within, name, 1, runs_s=2, spec={"ttlSecondsAfterFinished": 60})
    env.after(4, "submit what it waits for", lambda: env.api.create(awaited))
    _end_later(env, made)
    return env.create(made)


def drop_condition(env: Environment) -> str:
    """Take the condition off a Job that waits for another."""
    found = env.pick([*env.objects("jobs", "dependent"), *env.objects("jobs", "waits")])
    if found is None:
        return ""
    env.patch(path(found), {"metadata": {"annotations": {f"weir.dev/{each}": None for each in CONDITIONS}}})
    return path(found)


def _job(env: Environment, within: str, prefix: str, words: dict[str, str]) -> Object:
    marks = {f"weir.dev/{word}": said for word, said in words.items()}
    return job(within, env.name(prefix), env.chance.choice((1, 2)), marks=marks, runs_s=env.life_s())


def _end_later(env: Environment, made: Object) -> None:
    """Delete work that may wait forever, because what it waits for can end otherwise or be forgotten."""
    env.after(KEPT_STEPS, "delete a dependent Job", lambda: env.api.delete(path(made)))


def _in_s(seconds: float) -> str:
    """Return the time a number of seconds from now."""
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
