"""Sessions in a browser: a reverse proxy on a port of its own, which is an origin of its own.

A page of a notebook may be hostile. Its origin differs from that of the dashboard, so it can't read the proof
of a dashboard session there. Without the proof it can't use the pool's interface, even with the browser's
cookies.
"""
