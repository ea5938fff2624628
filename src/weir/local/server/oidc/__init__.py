"""Sign-in with OpenID Connect: tokens of an identity provider, and the people that they name."""
