"""`python -m weir` is `weir`."""

import sys

from weir.cli.main import main

sys.exit(main())
