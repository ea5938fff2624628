"""What needn't be kept any more: old parts of the history, and the output of what has long been over.

What jobs saved isn't touched: it may be all that somebody wanted of them.
"""

from structlog import get_logger

from weir.backends.local.home import Home
from weir.store import Store

OUTPUT_KEPT_S = 30 * 86400.0
_LOG = get_logger(__name__)


class Tidying:
    """Tidies a pool's store and home."""

    def __init__(self, store: Store, home: Home, output_kept_s: float = OUTPUT_KEPT_S) -> None:
        self._store = store
        self._home = home
        self._output_kept_s = output_kept_s
        self._forgotten_to_s = 0.0

    def tidy(self, now_s: float) -> None:
        """Do it. Call it every hour; what fails is done the next time."""
        try:
            until_s = now_s - self._output_kept_s
            for uid in self._store.ended_between(self._forgotten_to_s, until_s):
                self._home.forget(uid)
            self._forgotten_to_s = until_s
            self._store.tidy(now_s)
        except OSError as error:
            _LOG.warning("tidying_failed", why=str(error))
