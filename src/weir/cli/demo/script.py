"""The actions of people during the tour. The pool decides their outcome."""

from weir.cli.demo.jobs import DEPARTMENTS, EVALS, GANG, NOTEBOOK, PARTS, PROJECTS, SWEEP
from weir.cli.demo.observations import Observations
from weir.cli.demo.runner import DemoRunner

READ_S = 5.0
"""Time for which a finished scene stays on the screen."""


def play(show: DemoRunner) -> None:
    """Play all actions, from the empty pool to the end of the last job."""
    _set_up(show)
    _fill(show)
    _owner(show)
    _halves(show)
    _session(show)
    _home(show)


def _set_up(show: DemoRunner) -> None:
    for name, quota in DEPARTMENTS.items():
        show.stage.pool.set_department(name, quota={"gpu": quota})
    for name, (department, quota) in PROJECTS.items():
        show.stage.pool.set_project(name, department=department, quota={"gpu": quota})
    show.stage.pool.delete_project("default")


def _fill(show: DemoRunner) -> None:
    show.scene(
        "The pool is idle. vision, with a quota of 2, sends a sweep of eight.",
        "weir submit -p vision --gpus 1 -- python digits.py --seed 1        # to 8",
    )
    for part in SWEEP:
        show.submit(part)

    def all_learn(seen: Observations) -> bool:
        return all(seen.status(part.name) == "running" and seen.details[part.name].step for part in SWEEP)

    show.until(all_learn, "eight jobs of vision learn")
    show.wait(READ_S)  # until the jobs with few checkpoints have clearly more to lose


def _owner(show: DemoRunner) -> None:
    show.scene(
        "speech comes back for its 4 GPUs: one run of four processes, all or none.",
        "weir submit -p speech --workers 4 --gpus 1 -- python digits_gang.py",
    )
    show.submit(GANG)
    show.until(lambda seen: _learns(seen, GANG.name), f"{GANG.name} runs")
    show.hold(READ_S)


def _halves(show: DemoRunner) -> None:
    show.scene(
        "search tries two models, each on half a GPU.",
        "weir submit -p search --gpus 0.5 -- python digits.py --seed 21     # and 22",
    )
    for part in EVALS:
        show.submit(part)
    show.until(lambda seen: all(_learns(seen, part.name) for part in EVALS), "both halves learn")
    show.hold(READ_S)


def _session(show: DemoRunner) -> None:
    show.scene(
        "A member of search opens a session, while jobs are pending.",
        "weir submit -p search --type build --gpus 1 -- ...",
    )
    show.submit(NOTEBOOK)
    show.until(lambda seen: seen.status(NOTEBOOK.name) == "running", f"{NOTEBOOK.name} runs")
    show.hold(READ_S)


def _home(show: DemoRunner) -> None:
    show.scene("The session is closed. Stopped jobs continue when GPUs become free.", "weir stop notebook")
    show.stage.pool.stop(NOTEBOOK.name)
    show.until(lambda seen: all(map(seen.is_over, PARTS)), "all jobs are over")
    show.until(lambda _seen: show.alone.is_idle, "the undisturbed runs are over")


def _learns(seen: Observations, name: str) -> bool:
    return seen.is_over(name) or (seen.status(name) == "running" and bool(seen.details[name].step))
