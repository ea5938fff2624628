"""Sentences about the results of a sweep, the same on a machine and on a cluster."""


def result_words(metric: str, value: float | None, step: int) -> str:
    """Return a result at a rung in words; the value is None if it was no finite number."""
    return f"{metric} {'no number' if value is None else f'{value:.6g}'} at rung {step}"


def outcome(trials: int, best: str | None, result: str, missing: str) -> str:
    """Return the sentence about a sweep whose trials are over.

    Args:
        trials: number of trials.
        best: name of the best trial; None if no trial reached a rung.
        result: its best result, as `result_words` returns it.
        missing: what no trial reported, as `missing_result` returns it.
    """
    over = "Its trial is over" if trials == 1 else f"All {trials:,} trials are over"
    if best is None:
        return f"{over} {missing}"
    return f"{over}. The best is {best}: {result}."


def missing_result(metric: str, step: int, *, succeeded: bool) -> str:
    """Return the end of a sentence about trials without a result.

    Args:
        metric: metric of the sweep.
        step: step of the first rung.
        succeeded: True if a trial ran to its end, so that its script reports too little.
    """
    remedy = f": the script has to call `weir.report(step={step}, {metric}=...)`" if succeeded else ""
    return f"before rung {step}, without a result{remedy}."
