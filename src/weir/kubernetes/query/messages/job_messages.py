"""Messages of jobs about themselves: their form, and the pod that sends one.

The API server vouches for the pod: the token of a pod's service account is bound to the pod, and its name and
uid come with the request. So a pod can send messages about itself alone.
"""

from typing import Annotated

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from weir.kubernetes.query.aggregation.front_proxy import Identity
from weir.kubernetes.query.aggregation.refusals import QueryRefused

BYTES_MAX = 16 << 10
"""Size of a message: 64 values with names of 64 characters have less."""
VALUES_MAX = 64
_ACCOUNTS = "system:serviceaccount:"
_POD_NAME, _POD_UID = (f"authentication.kubernetes.io/pod-{field}" for field in ("name", "uid"))
Age = Annotated[float, Meta(ge=0, le=1e9)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]


class CheckpointMessage(Struct, rename="camel", forbid_unknown_fields=True):
    """The job has saved its state, so long before it sent this."""

    age_seconds: Age


class ReportMessage(Struct, rename="camel", forbid_unknown_fields=True):
    """The job's progress and metrics."""

    step: Annotated[int, Meta(ge=-(10**15), le=10**15)] | None = None
    values: Annotated[dict[Name, Number], Meta(max_length=VALUES_MAX)] = {}


class BusyMessage(Struct, rename="camel", forbid_unknown_fields=True):
    """The job is busy for a time, counted from so long before it sent this."""

    age_seconds: Age
    for_seconds: Age
    why: Annotated[str, Meta(max_length=64)] = ""


class PodMessage(Struct, rename="camel", forbid_unknown_fields=True):
    """The newest message of each kind of a pod. Times are ages, because pods have clocks of their own."""

    checkpointed: CheckpointMessage | None = None
    report: ReportMessage | None = None
    busy: BusyMessage | None = None


_DECODER = Decoder(PodMessage)


def parse_message(body: bytes) -> PodMessage:
    """Return the message in the body of a request.

    Raises:
        QueryRefused: the body is too large, or has another form.
    """
    if len(body) > BYTES_MAX:
        raise QueryRefused(413, f"The message is too large: send at most {BYTES_MAX} bytes.")
    try:
        message = _DECODER.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QueryRefused(400, f"The message can't be read: {str(error)[:200]}.") from None
    texts = [*(message.report.values if message.report is not None else ())]
    texts += [message.busy.why] if message.busy is not None else []
    if not all(text.isprintable() for text in texts):
        raise QueryRefused(400, "The message has names or reasons that can't be printed.")
    return message


def sender_uid(person: Identity, namespace: str, pod: str) -> str:
    """Return the uid of the pod that sends a message about itself.

    Raises:
        QueryRefused: another pod, or no pod, sends it.
    """
    extra = dict(person.extra)
    names, uids = extra.get(_POD_NAME, ()), extra.get(_POD_UID, ())
    is_of_namespace = person.user.startswith(f"{_ACCOUNTS}{namespace}:")
    if not is_of_namespace or len(uids) != 1 or names != (pod,):
        raise QueryRefused(
            403, "Only a pod may send messages about itself, with the token of its service account."
        )
    return uids[0]
