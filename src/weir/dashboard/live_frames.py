"""Frames of the live stream: JSON for the page, compressed once for all readers.

A frame is one line. Each is a sequence of deflate blocks of its own that ends at a byte and refers to nothing
before it. So frames that were compressed apart make one gzip stream in any order.
"""

import zlib
from collections.abc import Iterable, Sequence

from pydantic_core import to_json

from weir.api.answers import Answer, Explanation, WorkloadRow

GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
COLUMNS = (
    *("uid", "name", "project", "user", "type", "status", "gpus", "priority"),
    *("submitted", "started", "ran", "pods", "running", "pending_indices"),
    *("evicted", "activity", "why", "sentence"),
)
"""Columns of a workload in the list.

`ran` is the run time before the current run, and `pending_indices` is 0 but for arrays.
"""
ROW_BYTES_MAX = 300
_SENTENCE_MIN = 20
"""Least width of a sentence; a narrower one is cut to the rest of the row."""


def workload_columns(row: WorkloadRow) -> bytes:
    """Return a workload as the list has it, in JSON: an array in the order of COLUMNS."""
    activity, why = row.activity, _why(row)
    values = [
        row.uid,
        row.name,
        row.project,
        row.user,
        row.type,
        row.status,
        row.devices,
        row.priority,
        round(row.submitted_s, 1),
        None if row.started_s is None else round(row.started_s, 1),
        round(row.ran_before_s if row.ended_s is None else row.ran_s, 1),
        row.pods,
        row.pods_running,
        0 if row.array is None else row.array.pending,
        None if row.evicted is None else round(row.evicted.at_s, 1),
        "" if activity is None else activity.state or "",
        why.why if why is not None else row.array.sentence if row.array is not None else "",
        _sentence(row),
    ]
    text = to_json(values)
    over = len(text) - ROW_BYTES_MAX
    if over > 0 and values[-1]:
        values[-1] = shortened(_sentence(row), over)
        text = to_json(values)
    return text


def _why(row: WorkloadRow) -> Explanation | None:
    """Return the reason of a workload, or the warning that it is idle; None without both."""
    activity = row.activity
    if row.reason is not None or activity is None or activity.warning is None:
        return row.reason
    return Explanation(why="idle", sentence=activity.warning)


def _sentence(row: WorkloadRow) -> str:
    """Return the reason of a workload; of an array that isn't over, after the number of its indices."""
    reason = _why(row)
    why = "" if reason is None else reason.sentence
    if row.array is None or row.ended_s is not None:
        return why
    return f"{row.array.sentence}; {why}" if why else row.array.sentence


def shortened(sentence: str, over: int) -> str:
    """Return a sentence shortened by this number of bytes."""
    kept = max(_SENTENCE_MIN, len(sentence.encode()) - over - 3)
    cut = sentence.encode()[:kept].decode("utf-8", "ignore")
    return cut if cut == sentence else f"{cut}…"


def answer_json(answer: Answer) -> bytes:
    """Return an answer as REST has it."""
    return answer.model_dump_json().encode()


def joined(rows: Iterable[bytes]) -> bytes:
    """Return a JSON array of rows that are encoded already."""
    return b"[" + b",".join(rows) + b"]"


def frame(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the line of a frame from its parts, which are encoded already."""
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), text) for name, text in parts) + b"}\n"


def compressed(line: bytes) -> bytes:
    """Compress a frame on its own, so that any other frame may follow."""
    packer = zlib.compressobj(level=3, wbits=-15)
    return packer.compress(line) + packer.flush(zlib.Z_FULL_FLUSH)
