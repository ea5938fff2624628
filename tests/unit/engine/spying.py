"""Mark of tests that put functions of their own into the engine."""

import pytest

from weir.engine import cycle

needs_sources = pytest.mark.skipif(
    not str(cycle.__file__).endswith(".py"), reason="compiled functions can't be replaced"
)
