"""Times in the past, as options have them."""

import time

import pytest
from tests.unit.client.fake import Fake

from weir.cli.main import main
from weir.cli.options.past_time import past_time


@pytest.mark.parametrize("command", ["list", "events", "top", "report usage", "report jobs"])
@pytest.mark.parametrize("written", ["-5", "5", "+5"])
def test_an_age_without_a_unit_is_refused(
    command: str, written: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--since", written]) == 2
    answer = f"weir: --since '{written}' has no unit: write how long ago, such as 5d, 5h or 5m.\n"
    assert capsys.readouterr().err == answer
    assert fake.asked == []


@pytest.mark.parametrize("written", ["5s", "-5s", "0", "2025-11-01"])
def test_an_age_with_a_unit_and_a_date_are_in_the_past(written: str) -> None:
    assert past_time("--since", written) <= time.time()
