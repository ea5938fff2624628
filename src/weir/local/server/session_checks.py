"""Checks of a submission for a session in a browser."""

import re
from collections.abc import Mapping

from weir.api.submissions import Submission
from weir.local.server.problem_details import FieldErrors
from weir.local.session_programs import VARIABLE

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}", re.ASCII)


def check_session(submission: Submission, fields: FieldErrors) -> None:
    """Report mistakes that keep a submission from being a session in a browser, if it is to be one."""
    if submission.session is None:
        return
    if submission.name is not None and _NAME.fullmatch(submission.name) is None:
        right = "write letters, digits, dots, hyphens and underscores"
        fields.at(("name",), f"name: {submission.name} is a part of the address of its session; {right}")
    if submission.array is not None:
        fields.at(("session",), "session: indices of an array have none; leave one of them out")
    if sum(group.count for group in submission.pods) != 1:
        fields.at(("session",), "session: has one pod; leave out --workers, or write 1")


def session_variables(submission: Submission) -> Mapping[str, str]:
    """Return the variable that marks a session."""
    return {} if submission.session is None else {VARIABLE: submission.session}
