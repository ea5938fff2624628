"""`weir scenario`: run scenario files, and check their expectations.

The engine is imported when a file is run.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from weir.cli.options.numbers import whole_number
from weir.cli.output.tables import table, terminal_width

if TYPE_CHECKING:
    from weir.model.scenario import Scenario
    from weir.model.scenario_result import CycleResult, PodResult, ScenarioResult

DONE, DIFFERS, WRONG_REQUEST = 0, 1, 2
ScenarioFile = Annotated[Path, Parameter(help="Scenario files, YAML or JSON.")]
Output = Annotated[
    Literal["text", "json"],
    Parameter(help="text for people; json for programs, one object a line for each file."),
]

app = App(name="scenario", help="Play scenario files, and check their expected outcome.")


@app.command
def run(
    *files: ScenarioFile,
    cycles: Annotated[int | None, whole_number(1, 10_000)] = None,
    output: Output = "text",
) -> int:
    """Run each file, and print the state of every pod.

    Parameters
    ----------
    cycles
        Number of cycles; by default that of the file's expectations, else 2.
    """
    from weir.simulation.scenario_runner import play

    def one(file: Path, scenario: "Scenario") -> int:
        played = play(scenario, scenario.expect.cycles if cycles is None else cycles)
        print(json.dumps(_run_object(file, played)) if output == "json" else _run_text(file, played))
        return DONE

    return _run_each(files, one)


@app.command
def check(*files: ScenarioFile, output: Output = "text") -> int:
    """Run each file, and check its `expect`; the exit code is 1 if one differs."""
    from weir.model.expectations import differences
    from weir.simulation.scenario_runner import play

    passed: list[bool] = []

    def one(file: Path, scenario: "Scenario") -> int:
        expect = scenario.expect
        deviations = differences(expect, play(scenario, expect.cycles, expect.stable))
        passed.append(not deviations)
        if output == "json":
            print(
                json.dumps(
                    {
                        "file": str(file),
                        "name": scenario.name,
                        "passed": not deviations,
                        "differences": deviations,
                    }
                )
            )
        else:
            print(f"{'differs' if deviations else 'passed '}  {file}: {scenario.name}")
            print("".join(f"         {difference}\n" for difference in deviations), end="")
        return DIFFERS if deviations else DONE

    code = _run_each(files, one)
    if output == "text" and len(passed) > 1:
        print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return code


@app.command
def schema(kind: Literal["scenario", "policy"] = "scenario", /) -> int:
    """Print the JSON Schema of scenario or policy files, for editors that check while you type.

    Parameters
    ----------
    kind
        The kind of file.
    """
    from weir.scenario_io.schema import policy_schema, scenario_schema

    print(json.dumps(policy_schema() if kind == "policy" else scenario_schema(), indent=2))
    return DONE


def _run_each(files: Iterable[Path], one: "Callable[[Path, Scenario], int]") -> int:
    """Run every readable file and print the mistakes of the others; return the highest exit code."""
    from weir.model.scenario import InvalidFile
    from weir.scenario_io.reading import read_scenario

    code, none = DONE, True
    for file in files:
        none = False
        try:
            scenario = read_scenario(file)
        except InvalidFile as refused:
            sys.stdout.flush()
            for mistake in refused.mistakes:
                print(mistake, file=sys.stderr)
            code = WRONG_REQUEST
            continue
        code = max(code, one(file, scenario))
    if none:
        print("weir: no file is named; name one or more scenario files.", file=sys.stderr)
        return WRONG_REQUEST
    return code


def _run_object(file: Path, played: "ScenarioResult") -> dict[str, Any]:
    return {
        "file": str(file),
        "name": played.name,
        "cycles": [asdict(cycle) for cycle in played.cycles],
        "pods": {
            name: {"status": pod.status, "node": pod.node, "gpus": list(pod.gpus), "reason": pod.reason}
            for name, pod in played.pods.items()
        },
    }


def _run_text(file: Path, played: "ScenarioResult") -> str:
    lines = [f"{file}: {played.name}", ""]
    lines += [f"cycle {number}: {_did(cycle)}" for number, cycle in enumerate(played.cycles, 1)]
    rows = [
        (name, pod.status, pod.node or "", ", ".join(map(str, pod.gpus)), _why(pod))
        for name, pod in played.pods.items()
    ]
    lines += ["", table(("POD", "STATUS", "NODE", "GPUS", "REASON"), rows, terminal_width()), ""]
    return "\n".join(lines)


def _why(pod: "PodResult") -> str:
    return pod.reason or (f"taken by {pod.evicted_by}" if pod.evicted_by and pod.status != "running" else "")


def _did(cycle: "CycleResult") -> str:
    parts = (("bound", cycle.bound), ("evicted", cycle.evicted), ("nominated", cycle.waiting))
    return "; ".join(f"{did} {', '.join(pods)}" for did, pods in parts if pods) or "nothing"
