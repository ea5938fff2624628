"""Submissions as JSON, checked before they are sent.

A checked `Submission` has other units than people write (thousandths of a device), so the fields are sent as
they were written.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from weir.api.answers import Problem, Type
from weir.api.short_forms import OF_PODS, gathered
from weir.api.submissions import Submission
from weir.client.errors import Refused
from weir.model import scenario
from weir.scenario_io.error_messages import validated
from weir.scenario_io.source_map import Mistakes

Amount = int | float | str


class SubmissionFields(TypedDict, total=False):
    """Fields of a submission: those of the workload, and those of the pods of its only group.

    `workers` is the number of pods, `elastic` its minimum and maximum. A workload with several kinds of pods
    lists them in `pods` instead.
    """

    project: str
    command: Sequence[str]
    name: str | None
    type: Type
    priority: int | str | None
    preemptible: bool | None
    max_runtime: Amount | None
    idle_limit: Amount | None
    grace: Amount | None
    retries: int | None
    array: str | None
    begin: Amount | None
    after: Sequence[str]
    after_ok: Sequence[str]
    after_not_ok: Sequence[str]
    after_any: Sequence[str]
    topology: Mapping[str, str] | None
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    directory: str | None
    session: Literal["jupyter", "code"] | None
    image: str | None
    pull: Literal["missing", "always", "never"] | None
    container_runtime: Literal["podman", "docker"] | None
    min_pods: int | None
    pods: Sequence[Mapping[str, Any]]
    workers: int
    elastic: tuple[int, int]
    gpus: Amount
    devices: int
    gpu_memory: Amount
    gpu_models: Sequence[str]
    cpu: Amount
    memory: Amount
    resources: Mapping[str, Amount]
    node_selector: Mapping[str, str]
    nodes: Sequence[str]


_MILLI = ("gpus", "cpu")
"""Fields of pods that a checked submission holds in thousandths."""


def written(submission: Submission | Mapping[str, Any] | None, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a submission. Fields of `words` replace those of `submission`.

    Raises:
        Refused: the submission is invalid; with all mistakes.
    """
    try:
        body = as_written(submission) if isinstance(submission, Submission) else gathered(submission or {})
    except ValueError as error:
        raise _wrong([f"the submission {str(error).replace(': write ', '; write ', 1)}"]) from None
    for word, value in words.items():
        if word not in (*OF_PODS, "workers", "elastic") and value is not None:
            body[word] = _plain(value)
    pods = _of_pods(words)
    if pods:
        groups = [dict(group) for group in body.get("pods", [{}])]
        if len(groups) != 1:
            raise _wrong([f"{', '.join(pods)}: there are {len(groups)} kinds of pods; say it in pods"])
        body["pods"] = [{**groups[0], **pods}]
    check(body)
    return body


def check(body: Mapping[str, Any]) -> None:
    """Check a body before it is sent.

    Raises:
        Refused: with all mistakes.
    """
    try:
        validated(Submission, body, Mistakes(""))
    except scenario.InvalidFile as refused:
        raise _wrong([mistake.text for mistake in refused.mistakes]) from None


def _of_pods(words: Mapping[str, Any]) -> dict[str, Any]:
    pods = {word: _plain(words[word]) for word in OF_PODS if words.get(word) is not None}
    elastic, workers = words.get("elastic"), words.get("workers")
    if elastic is not None and workers is not None:
        raise _wrong(["workers: elastic says how many there are at least and at most; leave workers out"])
    if elastic is not None:
        least, most = elastic
        if least > most:
            raise _wrong([f"elastic: {least} is more than {most}; write the smaller number first"])
        pods |= {"count": most, "min": least}
    elif workers is not None:
        pods["count"] = workers
    return pods


def _plain(value: Any) -> Any:
    """Return a value as JSON types: no tuples, no other mappings."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


def as_written(submission: Submission | Mapping[str, Any]) -> dict[str, Any]:
    """Return a submission as JSON types, in the units that people write."""
    if not isinstance(submission, Submission):
        return {key: _plain(value) for key, value in submission.items()}
    body = submission.model_dump(mode="json", exclude_unset=True)
    for group in body.get("pods", ()):
        for word in _MILLI:
            if word in group:
                group[word] /= 1000
    return body


def _wrong(messages: Sequence[str]) -> Refused:
    errors = [{"message": message} for message in messages]
    return Refused(
        Problem(title="The submission can't be used", status=422, detail="; ".join(messages), errors=errors)
    )
