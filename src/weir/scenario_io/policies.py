"""Reading a policy: the scheduler's configuration as a file of its own."""

from pathlib import Path as FilePath

from pydantic import ValidationError

from weir.model.policy import Policy
from weir.scenario_io.document import read_document, text_of
from weir.scenario_io.error_messages import add_errors
from weir.scenario_io.source_map import Mistakes


def read_policy(path: FilePath | str) -> Policy:
    """The policy of a file; an empty one is the default.

    Raises:
        Refused: with everything that is wrong with it, or that it can't be opened.
    """
    mistakes = Mistakes(str(path))
    return _read(text_of(path, mistakes), mistakes)


def parse_policy(text: str, file: str) -> Policy:
    """The policy a text states; `file` is what mistakes are told of.

    Raises:
        Refused: with everything that is wrong with it.
    """
    return _read(text, Mistakes(file))


def _read(text: str, mistakes: Mistakes) -> Policy:
    raw = read_document(text, mistakes)
    policy = Policy()
    try:
        policy = Policy.model_validate({} if raw is None else raw)
    except ValidationError as error:
        add_errors(error, Policy, (), mistakes)
    mistakes.refuse_if_any()
    return policy
