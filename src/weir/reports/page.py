"""The frame of every page: one file that loads nothing from elsewhere.

The content security policy names the only script by its hash, so that a name in the data that looks like a
script stays text.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files


def page(title: str, about: str, sections: Sequence[str], notes: Sequence[str]) -> str:
    """Return a page of sections."""
    package = files("weir.reports")
    style = package.joinpath("page.css").read_text("utf-8")
    script = package.joinpath("page.js").read_text("utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    noted = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<main>
<header><p class="mark">Weir · replay</p><h1>{escape(title)}</h1><p class="about">{escape(about)}</p></header>
{"".join(sections)}
<footer>{noted}</footer>
</main>
<div id="read" aria-hidden="true"></div>
<script>{script}</script>
</body>
</html>
"""
