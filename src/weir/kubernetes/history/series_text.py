"""Curves of a workload as text in the database."""

from msgspec import DecodeError
from msgspec.json import Decoder, encode
from structlog import get_logger

from weir.control.metric_series import NAMES_MAX, MetricSeries, Point, add_points
from weir.kubernetes.query.usage.recent_series import Series

_DECODER = Decoder(dict[str, tuple[float, list[Point]]])
"""By name: the least distance of the points, and the points."""
_LOG = get_logger(__name__)


def series_of(text: str | None) -> dict[str, MetricSeries]:
    """Return the curves of a text; none if it can't be read."""
    if not text:
        return {}
    try:
        decoded = _DECODER.decode(text)
    except DecodeError as error:
        _LOG.warning("series_unreadable", why=str(error)[:200])
        return {}
    return {
        name: MetricSeries(points, every_s=every_s)
        for name, (every_s, points) in list(decoded.items())[:NAMES_MAX]
    }


def joined(text: str | None, recent: Series) -> dict[str, MetricSeries]:
    """Return stored curves with the points after their last ones."""
    series = series_of(text)
    for name, points in recent.items():
        add_points(series, name, points)
    return series


def text_of(series: dict[str, MetricSeries]) -> str:
    """Return curves as JSON text."""
    return encode({name: (metric.every_s, metric.points) for name, metric in series.items()}).decode()
