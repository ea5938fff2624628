"""Answers of a Prometheus server, without its client, which takes long to load."""

from dataclasses import dataclass


class PrometheusFailed(Exception):
    """A query that wasn't answered; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Series:
    """Labels and samples of a metric: times of the server's clock, and finite values."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]
