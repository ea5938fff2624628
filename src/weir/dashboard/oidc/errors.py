"""Failures of a sign-in with OpenID Connect."""


class ProviderUnavailable(Exception):
    """The provider doesn't answer, or not as OpenID Connect asks; the text says which."""


class GrantRefused(Exception):
    """The provider refuses to give tokens; the text is its error code."""


class TokenInvalid(Exception):
    """A token is invalid; the message has the reason, without the token."""
