"""Prices of an hour of a GPU, by model, as `weir up --price` sets them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.model.nodes import Node
from weir.store.reports.period import Prices

ANY = ""
PRICE_MAX = 1e6


@dataclass(frozen=True, slots=True)
class GpuPrices:
    """Prices by GPU model; the price of `ANY` is for every other model."""

    by_model: Mapping[str, float] = field(default_factory=dict)
    currency: str = "USD"

    def prices_of(self, node: Node) -> Prices:
        """Return the prices of nodes; a node that no longer exists has the price for any model."""
        if not self.by_model:
            return Prices()
        any_model = self.by_model.get(ANY)
        own = self.by_model.get(node.gpu_model or ANY, any_model)
        return Prices(self.currency, lambda name: own if name == node.name else any_model)


def read_prices(written: Sequence[str], currency: str) -> GpuPrices:
    """Return the prices of the options of `weir up`: `2.50`, or `NVIDIA-H100=2.50` for one model.

    Raises:
        ValueError: an option isn't a price; the message has an example.
    """
    prices: dict[str, float] = {}
    for text in written:
        model, _, number = text.rpartition("=")
        try:
            price = float(number)
        except ValueError:
            price = math.nan
        if not 0 <= price <= PRICE_MAX:
            raise ValueError(
                f"--price: {text[:80]!r} is no price: write one such as 2.50, or NVIDIA-H100=2.50"
            )
        prices[model.strip()] = price
    if not (currency.isalpha() and len(currency) <= 8):
        raise ValueError(f"--currency: {currency[:80]!r} is no currency: write one such as EUR")
    return GpuPrices(prices, currency)
