"""Every script of the corpus means the same to Weir and to Slurm, whose answers are recorded."""

import pytest
from tests.slurm import facts
from tests.slurm.corpus import Case, cases, recorded

from weir.slurm.batch_request import BatchRequest, read_request
from weir.slurm.directives import read_directives
from weir.slurm.errors import SlurmError
from weir.slurm.given_options import from_command_line, from_script, from_variables

ANSWERS = recorded()
REFUSED_BY_WEIR = {
    "heterogeneous": "heterogeneous",
    "heterogeneous_old": "heterogeneous",
}
"""Cases that Slurm takes and Weir refuses, with a word of the sentence."""
DIFFERENT = {"cores": "Slurm takes the cores of -B for tasks, and Weir binds no task to a core"}
"""Cases with a different fact, and the reason."""


def request_of(case: Case) -> BatchRequest:
    """Return the request of a case, submitted when Slurm's was."""
    answer = ANSWERS[case.name]
    own, _ = from_command_line(case.words)
    given = [
        *from_script(read_directives(case.text, "job.sh"), "job.sh"),
        *from_variables(case.variables),
        *own,
    ]
    now = facts.submitted_at(
        {key: str(value) for key, value in {**next(iter(ANSWERS.values())), **answer}.items()}
    )
    return read_request(given, now)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_script_means_what_it_means_to_slurm(case: Case) -> None:
    answer = ANSWERS[case.name]
    if "refused" in answer or case.name in REFUSED_BY_WEIR:
        with pytest.raises(SlurmError) as refusal:
            request_of(case)
        assert REFUSED_BY_WEIR.get(case.name, "") in str(refusal.value)
        assert "\n" not in str(refusal.value)
        return
    theirs = facts.of_slurm({key: str(value) for key, value in answer.items()})
    ours = facts.of_request(request_of(case), {key: str(value) for key, value in answer.items()})
    different = {key: (ours[key], theirs[key]) for key in theirs if ours[key] != theirs[key]}
    assert bool(different) == (case.name in DIFFERENT), different


def test_the_corpus_is_recorded_and_agrees() -> None:
    names = [case.name for case in cases()]
    assert set(names) == set(ANSWERS)
    assert len(names) >= 100
    assert len(DIFFERENT) <= len(names) * 0.02
