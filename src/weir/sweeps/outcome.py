"""Sentences about the results of a sweep, the same on a machine and on a cluster."""


def result_words(metric: str, value: float | None, step: int) -> str:
    """Return a result at a rung in words; the value is None if it was no finite number."""
    return f"{metric} {'no number' if value is None else f'{value:.6g}'} at rung {step}"


def outcome(trials: int, first_step: int, best: str | None, result: str) -> str:
    """Return the sentence about a sweep whose trials are over.

    Args:
        trials: number of trials.
        first_step: step of the first rung.
        best: name of the best trial; None if no trial reached a rung.
        result: its best result, as `result_words` returns it.
    """
    over = "Its trial is over" if trials == 1 else f"All {trials:,} trials are over"
    if best is None:
        return f"{over} before rung {first_step}, without a result."
    return f"{over}. The best is {best}: {result}."
