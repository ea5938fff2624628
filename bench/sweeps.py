"""Sweeps: what halving saves, and against Optuna's own pruner.

    python -m bench.sweeps [--training digits] [--first 0] [--seeds 10] [--trials 60] [--eta 4]
        [--rungs 1,3,9,27] [--virtual 10000] [--output json]

Each trial trains a small network for up to 27 epochs (`bench.sweep_trainings`). `full` trains all trials to
the end, with the same parameters. Optuna's pruner (TPE with successive halving) gets as many GPU-seconds as
the sweep used, on as many GPUs. A sweep is compared with full trainings by the best loss at any rung, as
`weir sweep best` says it, and with Optuna by the best loss after any epoch. The sweep's decisions are those
of the server (`weir.sweeps`), in virtual time: eight GPUs, one epoch takes a time that depends on the size
of the network. Virtual time alone is measured with 10,000 trials of made curves. `best_trial_trained_to` is
the last step that the best of all full trainings reached in the sweep, and `its_place_there` its place
among the trials at that rung.
"""

import argparse
import heapq
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.sweep_trainings import TRAININGS, Training
from weir.sweeps.halving import Halving
from weir.sweeps.samplers import PastTrial, suggest

RUNGS, GPUS = (1, 3, 9, 27), 8


@dataclass
class Outcome:
    """Result of one search: the best loss at a rung and after any epoch, and what it cost."""

    best: float
    best_of_epochs: float
    epochs: int
    gpu_s: float
    trials: list[Training] = field(default_factory=list)
    results: list[dict[int, float]] = field(default_factory=list)  # of each trial, by rung


def sweep(training: type[Training], trials: int, seed: int, sampler: str, eta: int) -> Outcome:
    """Run a sweep on eight GPUs in virtual time, with the decisions of the server."""
    halving = Halving(len(RUNGS), eta)
    networks: list[Training] = []
    results: list[dict[int, float]] = []
    running: list[tuple[float, int, int]] = []  # until, trial, rung
    now_s, gpu_s, epochs = 0.0, 0.0, 0
    while True:
        while len(running) < GPUS:
            begun = len(networks)
            promotion = halving.promotion(last=begun == trials and not running)
            if promotion is not None:
                trial, rung = promotion.trial, promotion.rung + 1
                halving.leave(trial)
            elif begun < trials:
                past = [
                    PastTrial(
                        network.params,
                        {RUNGS[rung]: loss for rung, loss in losses.items()},
                        len(losses) == len(RUNGS),
                    )
                    for network, losses in zip(networks, results, strict=True)
                ]
                params = dict(suggest(sampler, training.space(), seed, begun, past).params)
                networks.append(training(params, seed))
                results.append({})
                trial, rung = begun, 0
            else:
                break
            steps = RUNGS[rung] - (RUNGS[rung - 1] if rung else 0)
            took_s = steps * networks[trial].epoch_s
            gpu_s, epochs = gpu_s + took_s, epochs + steps
            heapq.heappush(running, (now_s + took_s, trial, rung))
        if not running:
            best = min(min(losses.values()) for losses in results)
            best_of_epochs = min(min(network.losses) for network in networks)
            return Outcome(best, best_of_epochs, epochs, gpu_s, networks, results)
        now_s, trial, rung = heapq.heappop(running)
        loss = networks[trial].loss_at(RUNGS[rung])
        results[trial][rung] = loss
        halving.record(trial, rung, loss)


def full(networks: list[Training]) -> Outcome:
    """Train all trials to the end."""
    best = min(network.loss_at(epoch) for network in networks for epoch in RUNGS)
    gpu_s = sum(network.epoch_s * RUNGS[-1] for network in networks)
    best_of_epochs = min(min(network.losses) for network in networks)
    return Outcome(best, best_of_epochs, RUNGS[-1] * len(networks), gpu_s)


def end_of_the_best(outcome: Outcome) -> tuple[int, int]:
    """Return the last step of the trial that is the best in full, and its place at that rung in the sweep."""
    best = min(
        range(len(outcome.trials)),
        key=lambda trial: min(outcome.trials[trial].loss_at(rung) for rung in RUNGS),
    )
    rung = max(outcome.results[best])
    losses = sorted(by_rung[rung] for by_rung in outcome.results if rung in by_rung)
    return RUNGS[rung], 1 + losses.index(outcome.results[best][rung])


def optuna_pruner(training: type[Training], gpu_s_max: float, seed: int, eta: int) -> Outcome:
    """Search with Optuna's TPE and its own pruner, on eight GPUs too, for as many GPU-seconds."""
    import optuna

    from weir.sweeps.optuna_samplers import distribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=RUNGS[0], reduction_factor=eta)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True), pruner=pruner
    )
    distributions = {parameter.name: distribution(parameter) for parameter in training.space()}
    best, gpu_s, epochs = float("inf"), 0.0, 0
    running: list[tuple[float, int, Any, Training]] = []  # the end of an epoch, and its trial

    def begin(now_s: float) -> None:
        trial = study.ask(distributions)
        network = training(trial.params, seed)
        heapq.heappush(running, (now_s + network.epoch_s, trial.number, trial, network))

    for _ in range(GPUS):
        begin(0.0)
    while gpu_s < gpu_s_max:
        now_s, number, trial, network = heapq.heappop(running)
        epoch = len(network.losses) + 1
        loss = network.loss_at(epoch)
        gpu_s, epochs = gpu_s + network.epoch_s, epochs + 1
        best = min(best, loss)
        trial.report(loss if np.isfinite(loss) else 1e300, epoch)
        if epoch < RUNGS[-1] and not trial.should_prune():
            heapq.heappush(running, (now_s + network.epoch_s, number, trial, network))
            continue
        done = epoch == RUNGS[-1]
        state = optuna.trial.TrialState.COMPLETE if done else optuna.trial.TrialState.PRUNED
        study.tell(trial, loss if done else None, state=state)
        begin(now_s)
    return Outcome(best, best, epochs, gpu_s)


def virtual(trials: int, eta: int) -> dict[str, float]:
    """Decide a sweep of many trials with made curves, and return what the decisions took."""
    chance, halving = random.Random(0), Halving(len(RUNGS), eta)
    quality = [chance.random() for _ in range(trials)]
    begun = decisions = 0
    running: list[tuple[float, int, int]] = []
    now_s, begin_s = 0.0, time.perf_counter()
    while True:
        while len(running) < 64:
            promotion = halving.promotion(last=begun == trials and not running)
            decisions += 1
            if promotion is not None:
                trial, rung = promotion.trial, promotion.rung + 1
                halving.leave(trial)
            elif begun < trials:
                trial, rung, begun = begun, 0, begun + 1
            else:
                break
            steps = RUNGS[rung] - (RUNGS[rung - 1] if rung else 0)
            heapq.heappush(running, (now_s + steps * chance.uniform(0.8, 1.2), trial, rung))
        if not running:
            break
        now_s, trial, rung = heapq.heappop(running)
        halving.record(trial, rung, quality[trial] + chance.gauss(0, 0.3) / RUNGS[rung])
    took_s = time.perf_counter() - begin_s
    reached = [halving.reached(rung) for rung in range(len(RUNGS))]
    return {
        "decisions": decisions,
        "s": took_s,
        "us_each": 1e6 * took_s / decisions,
        "last_rung": reached[-1],
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.sweeps", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--eta", type=int, default=4)
    parser.add_argument("--virtual", type=int, default=10_000)
    parser.add_argument("--sampler", default="tpe", choices=("tpe", "random"))
    parser.add_argument("--training", default="digits", choices=tuple(TRAININGS))
    parser.add_argument("--output", default="text", choices=("text", "json"))
    parser.add_argument("--rungs", default="1,3,9,27")
    args = parser.parse_args()
    global RUNGS  # noqa: PLW0603 - one search at a time
    RUNGS = tuple(map(int, args.rungs.split(",")))
    training, rows = TRAININGS[args.training], []
    for seed in range(args.first, args.first + args.seeds):
        halving = sweep(training, args.trials, seed, args.sampler, args.eta)
        theirs = optuna_pruner(training, halving.gpu_s, seed, args.eta)
        all_ = full(halving.trials)
        step, place = end_of_the_best(halving)
        rows.append(
            {
                "bench": "sweeps",
                "training": args.training,
                "seed": seed,
                "best": halving.best,
                "best_full": all_.best,
                "worse_percent": 100 * (halving.best / all_.best - 1),
                "gpu_s_percent": 100 * halving.gpu_s / all_.gpu_s,
                "best_trial_trained_to": step,
                "its_place_there": place,
                "best_optuna_pruner": theirs.best,
                "no_worse": halving.best_of_epochs <= theirs.best_of_epochs,
            }
        )
        if args.output == "text":
            print(
                "  ".join(
                    f"{key} {value}" if isinstance(value, str) else f"{key} {value:.4g}"
                    for key, value in rows[-1].items()
                ),
                flush=True,
            )
    rows.append({"bench": "sweeps", "virtual_trials": args.virtual, **virtual(args.virtual, args.eta)})
    if args.output == "json":
        print(json.dumps(rows))
    else:
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()))
        better = sum(bool(row.get("no_worse")) for row in rows)
        print(f"no worse than Optuna's pruner: {better} of {args.seeds}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
