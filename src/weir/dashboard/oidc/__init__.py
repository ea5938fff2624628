"""Sign-in with OpenID Connect: the provider, its tokens, and the redirects of a browser."""
