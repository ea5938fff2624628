"""`weir jupyter` and `weir code`: an interactive workload with a program that a browser opens."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from weir.cli.dashboard.command import OpenOption, open_in_browser
from weir.cli.output.terminal import say
from weir.cli.pool.connect import connect
from weir.cli.sessions.pod_entry import EntryRefused
from weir.cli.sessions.start import SessionOptions, default_name, live, running, say_kept, submit_session
from weir.client.address import find
from weir.client.errors import Refused

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.api.sessions import SessionKind
    from weir.client.api import Pool

_PROGRAMS: "dict[SessionKind, tuple[Sequence[str], str]]" = {
    "jupyter": (
        ("jupyter-lab", "jupyter-notebook"),
        "Jupyter isn't here: run `pip install jupyterlab`",
    ),
    "code": (("code-server",), "code-server isn't here: run `npm install --global code-server`"),
}
"""Programs of each kind of session, the preferred one first, and the message if none is installed."""
_LOOK_S_MIN, _LOOK_S_MAX = 0.05, 0.2


def jupyter(
    name: str | None = None,
    /,
    *words: str,
    options: SessionOptions = SessionOptions(),
    open_: OpenOption = True,
) -> int:
    """Open Jupyter in a workload, as in `weir jupyter notes -p vision --gpus 1`.

    It is the JupyterLab of this shell's environment. If there is no workload of this name, one is queued with
    these options. It goes on without the browser; `weir stop` ends it.

    Parameters
    ----------
    name
        The workload; jupyter-USER if left out.
    words
        Options of Jupyter: everything after --.
    """
    return _in_browser("jupyter", name, words, options, open_=open_)


def code(
    name: str | None = None,
    /,
    *words: str,
    options: SessionOptions = SessionOptions(),
    open_: OpenOption = True,
) -> int:
    """Open VS Code in a browser in a workload, as in `weir code dev -p vision --gpus 1`.

    It is the code-server of this machine. If there is no workload of this name, one is queued with these
    options. It goes on without the browser; `weir stop` ends it.

    Parameters
    ----------
    name
        The workload; code-USER if left out.
    words
        Options of code-server: everything after --.
    """
    return _in_browser("code", name, words, options, open_=open_)


def _in_browser(
    kind: "SessionKind", name: str | None, words: Sequence[str], options: SessionOptions, *, open_: bool
) -> int:
    def show(link: str) -> None:
        if open_:
            open_in_browser(link)

    if find().is_cluster:
        from weir.cli.sessions.kubernetes.cluster_browser import serve

        return serve(kind, name, words, options, show)
    with connect(namespace=options.placement.namespace) as pool:
        detail = _session(pool, kind, name, words, options)
        if pool.address.url.startswith("https:") and not pool.address.token:
            return _page(f"{pool.address.url}/#/workload/{detail.uid}", detail, open_=open_)
        show(_print_link(pool, detail.name, _link(pool, detail)))
    return 0


def _print_link(pool: "Pool", name: str, link: str) -> str:
    """Print a link in the form for a browser of this machine; return it."""
    parts = urlsplit(link)
    if pool.address.ssh is not None:
        link = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()
    print(link, flush=True)
    if pool.address.ssh is not None:
        tunnel = f"ssh -NL {parts.port}:{parts.netloc} {pool.address.ssh.destination}"
        print(f"The session is on that machine: run `{tunnel}` meanwhile.", file=sys.stderr)
    say(f"The link opens {name} once, within a minute. `weir stop {name}` ends it.")
    return link


def _page(address: str, detail: "WorkloadDetail", *, open_: bool) -> int:
    """Print the dashboard's page of a session, where people of an identity provider sign in themselves."""
    print(address, flush=True)
    say(f"Sign in there, and open {detail.name}. `weir stop {detail.name}` ends it.")
    if open_:
        open_in_browser(address, is_secret=False)
    return 0


def _session(
    pool: "Pool", kind: "SessionKind", name: str | None, words: Sequence[str], options: SessionOptions
) -> "WorkloadDetail":
    """Return the named session once it runs; queue it first if there is none.

    Raises:
        EntryRefused: the program is missing, or the workload of this name is no such session.
    """
    name = name or default_name(pool.whoami().user, kind)
    detail = live(pool, name)
    if detail is not None:
        if detail.session != kind:
            raise EntryRefused(f"{name} is no session of `weir {kind}`: choose another name", 2)
        if options.fields or words:
            say_kept(name)
        return running(pool, detail, is_new=False)
    programs, missing = _PROGRAMS[kind]
    is_elsewhere = options.placement.image is not None or not pool.address.is_loopback
    program = programs[0] if is_elsewhere else next(filter(shutil.which, programs), None)
    if program is None:
        raise EntryRefused(missing)
    made = submit_session(pool, name, options, [program, *words], kind)
    return running(pool, made, is_new=True)


def _link(pool: "Pool", detail: "WorkloadDetail") -> str:
    """Return a link to a session once its program listens.

    Raises:
        EntryRefused: it ended.
    """
    pause_s = _LOOK_S_MIN
    while True:
        try:
            return pool.session_link(detail.name).url
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
        detail = running(pool, pool.get(str(detail.uid)), is_new=False)
        time.sleep(pause_s)
        pause_s = min(_LOOK_S_MAX, pause_s * 1.2)
