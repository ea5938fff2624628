"""The log: one line of JSON each in front of a cluster, bounded, without secrets."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import logging
from structlog import get_logger
from weir.service import logging_setup as log
log.set_up("info", form="json", repeats_max=2)
_LOG = get_logger("test")
_LOG.info("first", count=3, where=("a", "b"), token="secret", thing=object)
try:
    raise ValueError("no")
except ValueError as error:
    _LOG.error("broken", exc_info=error)
for at in range(5):
    _LOG.info("repeated", at=at)
for at in range(50):
    _LOG.info("placed", at=at)
logging.getLogger("library").warning("of a %s", "library\\nwith lines")
"""


def test_every_line_is_json_and_decisions_are_not_left_out() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    first, broken = lines[:2]
    assert {"level": "info", "event": "first", "count": 3, "where": ["a", "b"]}.items() <= first.items()
    assert next(iter(first)) == "timestamp"
    assert first["token"] == "(hidden)"
    assert "ValueError: no" in broken["exception"]
    assert [line["at"] for line in lines if line["event"] == "repeated"] == [0, 1]
    assert len([line for line in lines if line["event"] == "placed"]) == 50
    assert lines[-1]["event"] == "of a library\nwith lines"
    assert lines[-1]["logger"] == "library"


@pytest.mark.parametrize("place", ["full disk", "closed pipe"])
def test_log_that_cannot_be_written_loses_lines_and_raises_nothing(place: str) -> None:
    reading, stream = os.pipe()
    os.close(reading)
    if place == "full disk":
        os.close(stream)
        stream = os.open("/dev/full", os.O_WRONLY)
    command = [sys.executable, "-c", f"{SCRIPT}\nprint('goes on')"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stream, text=True, check=False)
    os.close(stream)
    assert "goes on" in done.stdout
