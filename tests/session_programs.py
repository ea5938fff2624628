"""Programs that tests of sessions need: OpenSSH, rsync, JupyterLab and code-server.

Tests without their programs are skipped. `WEIR_SESSIONS=required` makes that a failure. `WEIR_SESSIONS=skip`
skips the tests with JupyterLab and code-server on purpose.
"""

import os
import shutil
from functools import cache

import pytest
from tools.sessions.programs import SETTING, NoSessionPrograms, SessionPrograms, find

_ARE_REQUIRED = os.environ.get(SETTING) == "required"
_SSH = ("ssh", "scp", "sftp")
_HAS_SSH = all(map(shutil.which, _SSH)) and shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
NEEDS_SSH = pytest.mark.skipif(
    not (_HAS_SSH or _ARE_REQUIRED), reason="needs OpenSSH (apt-get install openssh-client openssh-server)"
)
NEEDS_RSYNC = pytest.mark.skipif(
    not (shutil.which("rsync") or _ARE_REQUIRED), reason="needs rsync (apt-get install rsync)"
)


@cache
def find_programs() -> SessionPrograms | None:
    """Return JupyterLab and code-server, installed now if need be; None if tests do without them."""
    if os.environ.get(SETTING) == "skip":
        return None
    try:
        return find()
    except NoSessionPrograms as lacks:
        assert not _ARE_REQUIRED, str(lacks)
        return None


def need_programs() -> SessionPrograms:
    """Return JupyterLab and code-server; skip the test without them."""
    found = find_programs()
    if found is None:
        pytest.skip("needs JupyterLab and code-server (python -m tools.sessions.programs)")
    return found
