"""Sessions in a browser: programs of a workload that the pool passes requests to."""

from typing import Literal

from weir.api.workload_list import Answer, PointInTime

SessionKind = Literal["jupyter", "code"]


class SessionLink(Answer):
    """Link that opens a session in a browser once, within a minute."""

    url: str
    expires_s: PointInTime
