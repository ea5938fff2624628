"""Time limit of a call that may hang: a broken driver, or a file server that doesn't answer."""

import threading
from collections.abc import Callable
from typing import TypeVar

Answered = TypeVar("Answered")


class NotInTime(Exception):
    """The call exceeded its time limit; its thread is abandoned."""


def within(seconds: float, call: Callable[[], Answered]) -> Answered:
    """Return the result of a call, in a thread that doesn't keep the process alive.

    Raises:
        NotInTime: the call didn't end in time.
    """
    answers: list[Answered] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as failure:  # noqa: BLE001 - raised again by the caller
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not answers:
        raise NotInTime
    return answers[0]
