"""Histograms of times: small, and mergeable over days. Percentiles of them are rounded.

Bucket 0 holds times below 0.1 s. The bounds of the others grow by 5 %, so that the middle of a bucket is
within 2.5 % of each time in it. A year has bucket 402.
"""

import math
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

import numpy as np

from weir.api.history import WaitTimes

FIRST_S: Final = 0.1
RATIO: Final = 1.05
BUCKETS_MAX: Final = 512
_LOG = math.log(RATIO)
_PAIR = struct.Struct("<HI")
_PAIRS = np.dtype([("bucket", "<u2"), ("count", "<u4")])
_COUNT_MAX = (1 << 32) - 1
_FEW_BYTES = 64 * _PAIR.size
"""Numpy is slower for fewer."""

Histogram = Counter[int]
"""Number of times in each bucket."""


def bucket_of(time_s: float) -> int:
    """Return the index of the bucket that a time falls into."""
    if not time_s >= FIRST_S:  # also True for negative numbers and NaN
        return 0
    return int(min(BUCKETS_MAX - 1, 1 + math.log(min(time_s, 1e12) / FIRST_S) // _LOG))


def time_of(bucket: int) -> float:
    """Return the middle of a bucket, in seconds."""
    return 0.0 if bucket == 0 else round(FIRST_S * RATIO ** (bucket - 0.5), 3)


def packed_histogram(counts: Mapping[int, int]) -> bytes:
    """Return a histogram as the store keeps it: six bytes for each bucket that holds times."""
    return b"".join(_PAIR.pack(bucket, min(count, _COUNT_MAX)) for bucket, count in counts.items())


def unpacked_histogram(packed: bytes) -> Histogram:
    """Return the sum of stored histograms, one after another."""
    if len(packed) <= _FEW_BYTES:
        counts: Histogram = Counter()
        for bucket, count in _PAIR.iter_unpack(packed):
            counts[bucket] += count
        return counts
    pairs = np.frombuffer(packed, dtype=_PAIRS)
    sums = np.bincount(pairs["bucket"], weights=pairs["count"])
    return Counter({int(bucket): int(sums[bucket]) for bucket in np.flatnonzero(sums)})


def rank(count: int, percent: int) -> int:
    """Return the position of a nearest-rank percentile among this many values."""
    return (count * percent + 99) // 100 - 1


def rounded_percentiles(counts: Histogram) -> WaitTimes:
    """Return the nearest-rank percentiles, rounded to the middle of their buckets."""
    total = counts.total()
    if not total:
        return WaitTimes()
    buckets = sorted(counts)
    passed = list(accumulate(counts[bucket] for bucket in buckets))
    times = (time_of(buckets[bisect_right(passed, rank(total, part))]) for part in (50, 90, 95))
    p50_s, p90_s, p95_s = times
    return WaitTimes(count=total, p50_s=p50_s, p90_s=p90_s, p95_s=p95_s, rounded=True)
