"""`weir jupyter` and `weir code` on a cluster: find or queue a session, then open it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from weir.cli.sessions.kubernetes.cluster_entry import cluster_pool
from weir.cli.sessions.kubernetes.session_container import session_kind
from weir.cli.sessions.pod_entry import EntryRefused
from weir.cli.sessions.start import say_kept

if TYPE_CHECKING:
    from weir.api.sessions import SessionKind
    from weir.cli.sessions.start import SessionOptions

PROGRAMS: "Mapping[SessionKind, tuple[str, str]]" = {
    "jupyter": ("jupyter-lab", "add `RUN pip install jupyterlab` to its Dockerfile"),
    "code": ("code-server", "add `RUN npm install --global code-server` to its Dockerfile"),
}
"""Program of each kind, and how an image gets it."""


def serve(
    kind: "SessionKind",
    name: str | None,
    words: Sequence[str],
    options: "SessionOptions",
    open_link: Callable[[str], None],
) -> int:
    """Serve the named session until Ctrl-C, and queue it if there is none. Return the exit code.

    Raises:
        EntryRefused: the session can't be queued or entered, or has ended.
    """
    program, missing = PROGRAMS[kind]
    with cluster_pool(options.placement.namespace) as cluster:
        name = name or cluster.default_name(kind)
        existing = cluster.existing(name, options.project)
        if existing is not None:
            if session_kind(cluster.transport, existing) != kind:
                raise EntryRefused(f"{existing.name} is no session of `weir {kind}`: choose another name", 2)
            if options.fields or words:
                say_kept(name)
        detail, address = cluster.session(name, options, [program, *words], kind, missing)
        from weir.cli.sessions.kubernetes.session_server import serve_session  # its import takes longest

        return serve_session(cluster, kind, detail, address, open_link)
