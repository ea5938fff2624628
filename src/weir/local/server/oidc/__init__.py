"""Sign-in of a pool's people with OpenID Connect: their sessions, tokens and rights."""
