"""How the manual is built."""

from weir import __version__

project = "Weir"
author = "The Weir authors"
copyright = "The Weir authors, Apache-2.0"
release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"Weir {release}"
