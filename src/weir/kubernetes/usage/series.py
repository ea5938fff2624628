"""Answers of a Prometheus server, without its client, which takes long to load."""

from dataclasses import dataclass


class PrometheusFailed(Exception):
    """A query that wasn't answered; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Series:
    """Time series of a metric: its labels, and samples (time by the server's clock, finite value)."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]
