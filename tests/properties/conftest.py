"""Which properties the default run affords: the rest take minutes and run with WEIR_EFFORT=2 or more."""

from .effort import EFFORT

collect_ignore = (
    []
    if EFFORT > 1
    else ["test_always.py", "test_state.py", "test_waiting.py", "test_prices.py", "test_shares.py"]
)
