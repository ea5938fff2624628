"""Records and notes hold any bytes: what comes of reading them is data or a refusal, never an exception."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.budget import examples

from weir.local.files.job_files import UnreadableFile
from weir.local.records import pod_records

START = {
    "pod": ["job", 0, 0],
    "start": 1,
    "node": "here",
    "devices": [0, 1],
    "at_s": 12.5,
    "seat": [0, 1, 20_000],
    "command": ["true"],
    "directory": "/",
    "grace_s": 30.0,
    "log_max": 1 << 30,
    "environment": {"A": "b"},
    "cgroups": [["/c/x", {"pids.max": "1"}, ""]],
}
EXIT = {
    "at_s": 9.0,
    "code": 0,
    "signal": None,
    "stopped": False,
    "started_s": 8.0,
    "cpu_s": 0.1,
    "max_rss": 5,
}
RUNNING = {"supervisor": 5, "leader": 6, "leader_ticks": 7, "started_s": 1.0, "cgroups": []}
HUGE, DEEP = "9" * 400, "[" * 100_000 + "]" * 100_000
NOTED = pod_records.TimeBounds(0.0, 10.0)
NO_JSON = (
    b"",
    b"\0" * 4096,
    b"\xff\xfe{",
    b"{",
    b"[1]",
    b"null",
    b'{"at_s": NaN}',
    b'{"at_s": Infinity}',
    b'{"at_s": 1, "at_s": 2}',
    b'{"at_s": ' + b"9" * 5000 + b"}",
    DEEP.encode(),
    '{"kind": "report"}'.encode("utf-16"),
)
READERS = (pod_records.parse_start, pod_records.parse_exit, pod_records.parse_running)


def read_all(text: bytes) -> list[object]:
    return [
        *(read(text) for read in READERS),
        pod_records.parse_grace(text),
        pod_records.parse_message(text, NOTED),
    ]


def test_whole_records_are_read() -> None:
    start, ended, running = (
        read(json.dumps(answer).encode())
        for read, answer in zip(READERS, (START, EXIT, RUNNING), strict=True)
    )
    assert isinstance(start, pod_records.StartRecord)
    assert (start.pod, start.devices, start.gang_rank) == (("job", 0, 0), (0, 1), (0, 1, 20_000))
    assert isinstance(ended, pod_records.ExitRecord)
    assert (ended.code, ended.started_s, ended.max_rss) == (0, 8.0, 5)
    assert isinstance(running, pod_records.RunningRecord)
    assert running.leader_ticks == 7
    assert pod_records.parse_grace(b'{"grace_s": 3}') == 3.0


@pytest.mark.parametrize("text", NO_JSON, ids=range(len(NO_JSON)))
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    assert all(found is None or isinstance(found, UnreadableFile) for found in read_all(text))


BAD = ("x", None, True, -1, 1.5, [], {}, [[]], ["x", {}], "@huge", "@nan", "@inf", "@half")


def texts_with(answer: dict[str, object], name: str, value: object) -> bytes:
    text = json.dumps({**answer, name: value})
    for word, number in (("@huge", HUGE), ("@nan", "NaN"), ("@inf", "1e999"), ("@half", '"\\ud800"')):
        text = text.replace(f'"{word}"', number)
    return text.encode()


@pytest.mark.parametrize("name", START)
def test_every_value_of_an_order_is_checked(name: str) -> None:
    without = {key: value for key, value in START.items() if key != name}
    assert isinstance(pod_records.parse_start(json.dumps(without).encode()), UnreadableFile)
    for value in BAD:
        found = pod_records.parse_start(texts_with(START, name, value))
        if isinstance(found, pod_records.StartRecord):
            kept = getattr(found, name)
            assert type(kept) is type(getattr(pod_records.parse_start(json.dumps(START).encode()), name))
            assert not isinstance(kept, float) or 0 <= kept < math.inf


@pytest.mark.parametrize("name", EXIT)
def test_every_value_of_an_end_is_checked(name: str) -> None:
    for value in BAD:
        found = pod_records.parse_exit(texts_with(EXIT, name, value))
        if isinstance(found, pod_records.ExitRecord):
            assert found.code is None or 0 <= found.code <= 255
            assert 0 <= found.at_s < math.inf
            assert 0 <= found.cpu_s < math.inf
            assert isinstance(found.stopped, bool)


def test_a_note_keeps_what_is_sound_of_it() -> None:
    line = (
        b'{"kind": "report", "at_s": 5, "step": '
        + b"9" * 400
        + b', "values": {"a": 1, "b": '
        + b"9" * 400
        + b', "c\\u001b[2J": 1, "\\ud800": 1, "d": true, "e": "f", "'
        + b"g" * 100
        + b'": -2.5}}'
    )
    note = pod_records.parse_message(line, NOTED)
    assert note is not None
    assert (note.at_s, note.step, dict(note.values)) == (5.0, None, {"a": 1.0, "g" * 64: -2.5})
    for bad in (b"-1", HUGE.encode(), b"true", b'"1"', b"1e999", b"null"):
        assert pod_records.parse_message(b'{"kind": "checkpointed", "at_s": ' + bad + b"}", NOTED) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@examples(60)
@given(
    st.sampled_from([START, EXIT, RUNNING, {"kind": "report", "at_s": 1.0, "step": 1, "values": {"a": 1}}]),
    st.dictionaries(
        st.sampled_from([*START, *EXIT, *RUNNING, "kind", "step", "values"]), json_values, max_size=3
    ),
    st.binary(max_size=20),
    st.integers(0, 200),
)
def test_nothing_raises_for_what_a_file_says(
    answer: dict[str, object], changed: dict[str, object], more: bytes, at: int
) -> None:
    text = json.dumps({**answer, **changed}).encode()
    for each in (text, text[:at] + more + text[at:], text[:at], more):
        for found in read_all(each):
            assert found is None or isinstance(found, float | tuple)
