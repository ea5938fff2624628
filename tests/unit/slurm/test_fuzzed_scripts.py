"""Damaged scripts are read, or refused with one sentence."""

import random
from datetime import UTC, datetime

import pytest
from tests.slurm.corpus import cases

from weir.slurm.batch_request import read_request
from weir.slurm.directives import read_directives
from weir.slurm.errors import SlurmError
from weir.slurm.given_options import from_script
from weir.slurm.node_resources import node_resources

LETTERS = "0123456789:-=,%@#'\"\\ abgGMK²٣\t[]?+_\n"


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_script_is_read_or_refused_in_one_sentence(seed: int) -> None:
    chance = random.Random(seed)
    texts = [case.text for case in cases()]
    read = refused = 0
    for _ in range(1500):
        letters = list(chance.choice(texts))
        for _ in range(chance.randint(1, 4)):
            letters[chance.randrange(len(letters))] = chance.choice(LETTERS)
        try:
            directives = read_directives("".join(letters), "job.sh")
            request = read_request(from_script(directives, "job.sh"), datetime(2026, 11, 23, 9, tzinfo=UTC))
            assert node_resources(request, fold=True).tasks >= 0
            read += 1
        except SlurmError as refusal:
            assert "\n" not in str(refusal)
            assert len(str(refusal)) > 20
            refused += 1
    assert read > 100
    assert refused > 100
