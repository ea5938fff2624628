"""Sessions in a browser: a reverse proxy on a port of its own, which is an origin of its own.

A page of a notebook may be hostile. On another origin than the dashboard's it can't read the proof of a
session there. So it can't use the pool's interface, whatever cookies the browser sends.
"""
