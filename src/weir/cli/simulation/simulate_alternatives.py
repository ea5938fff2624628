"""`weir simulate --what-if`: alternatives to a cluster, compared over several seeds."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weir.cli.output.formatting import lasting, number, percent
from weir.cli.output.tables import table, terminal_width
from weir.cli.simulation.replay_progress import progress_bar

if TYPE_CHECKING:
    from weir.model.scenario import Scenario
    from weir.simulation.job_trace import JobTrace

DONE, WRONG_REQUEST = 0, 2
ALTERNATIVES_MAX = 12


def compare_alternatives(
    scenario: "Scenario", job_traces: "Sequence[JobTrace]", texts: Sequence[str], seeds: int, output: str
) -> int:
    """Replay the present cluster and each alternative; print the differences that exceed the spread."""
    from weir.model.scenario import InvalidFile
    from weir.scenario_io.policies import named_policy
    from weir.simulation.alternatives import changed, parse_alternative
    from weir.simulation.comparison import compared, replay_all

    if len(texts) > ALTERNATIVES_MAX:
        print(
            f"weir: --what-if: {len(texts)} are too many; write {ALTERNATIVES_MAX} at most.", file=sys.stderr
        )
        return WRONG_REQUEST
    try:
        alternatives = [parse_alternative(text) for text in texts[:ALTERNATIVES_MAX]]
        made = [(alternative, *changed(scenario, alternative, named_policy)) for alternative in alternatives]
    except (ValueError, InvalidFile) as error:
        print(f"weir: {error}.", file=sys.stderr)
        return WRONG_REQUEST
    variants = [(None, scenario, scenario.policy), *made]
    if output == "progress":
        result = compared(replay_all(variants, job_traces, seeds, _say_progress))
        print(json.dumps({"result": result}), flush=True)
        return DONE
    with progress_bar(f"{len(variants)} x {seeds} replays") as progress:
        result = compared(replay_all(variants, job_traces, seeds, progress))
    print(json.dumps(result, indent=2) if output == "json" else "\n".join(_lines(result)))
    return DONE


def _say_progress(part: float) -> None:
    print(json.dumps({"progress": round(part, 4)}), flush=True)


def _written(key: str, value: float) -> str:
    if key == "allocation":
        return percent(value)
    return lasting(value) if key in ("wait", "completion", "entitled_wait") else number(value)


def _cell(key: str, estimate: Mapping[str, Any] | None, *, is_base: bool) -> str:
    if estimate is None:
        return "-"
    low, high, mean = (_written(key, estimate[name]) for name in ("low", "high", "mean"))
    text = mean if low == high else f"{mean} ({low} to {high})"
    return text if is_base or estimate["difference"] is not None else f"~ {text}"


def _lines(result: Mapping[str, Any]) -> list[str]:
    base, *_ = alternatives = result["alternatives"]
    heads = ["", *(alternative["name"] for alternative in alternatives)]
    rows = [
        [
            estimate["words"],
            *(
                _cell(key, alternative["numbers"].get(key), is_base=alternative is base)
                for alternative in alternatives
            ),
        ]
        for key, estimate in base["numbers"].items()
    ]
    for name, numbers in base["by_project"].items():
        if "wait" in numbers:
            waits = (alternative["by_project"][name].get("wait") for alternative in alternatives)
            cells = [_cell("wait", wait, is_base=index == 0) for index, wait in enumerate(waits)]
            rows.append([f"  mean wait of {name}", *cells])
    means = f"Means of {result['seeds']} seeds, with the least and the most"
    seeds = f"{means}; ~ marks a difference within that range."
    return [table(heads, rows, terminal_width()), "", seeds, str(result["verdict"])]
