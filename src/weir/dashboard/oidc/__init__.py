"""Sign-in with OpenID Connect: the provider, its tokens, and a browser's way there and back."""
