"""Checks of the settings of OAuth: URLs, algorithms, and what needs each other."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tabane.errors import ConfigurationError
from tabane.messages import say
from tabane.settings.table import Settings

ASYMMETRIC = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Algorithms of signatures that only the authorization server can make.

``none`` and HMAC are not among them: with HMAC, a public key could be used as the secret (RFC 8725, 2.1).
"""

_URLS = ("oauth_issuer", "oauth_jwks_url", "oauth_introspection_url")
_VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"


def check_oauth(settings: Settings) -> None:
    """Raise ConfigurationError if the settings of OAuth are wrong, or do not fit together."""
    for name in _URLS:
        _check_url(name, getattr(settings, name))
    _check_algorithms(settings)
    if settings.oauth_introspection_url:
        _check_introspection(settings)
    elif settings.oauth_introspect == "always":
        raise ConfigurationError(
            say("oauth_introspect is always, but oauth_introspection_url is not set. Set that URL too.")
        )
    needs_issuer = ("oauth_jwks_url", "oauth_introspection_url", "oauth_audience", "oauth_scopes")
    given = next((name for name in needs_issuer if getattr(settings, name)), None)
    if given and not settings.oauth_issuer:
        raise ConfigurationError(
            say(
                "{name} is set, but oauth_issuer is not. Set oauth_issuer to the URL of the "
                "authorization server.",
                name=given,
            )
        )


def is_safe_url(url: str) -> bool:
    """Return whether a URL may be asked: by https, or by http if only this machine answers."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if (
        not host
        or port == 0
        or "@" in parts.netloc
        or not (url.isascii() and url.isprintable())
        or " " in url
    ):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine answers at a host."""
    if host in ("localhost", "::1"):
        return True
    parts = host.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(p.isdecimal() and int(p) < 256 for p in parts)


def _check_url(name: str, given: str) -> None:
    if given and (not is_safe_url(given) or "#" in given or (name == "oauth_issuer" and "?" in given)):
        raise ConfigurationError(
            say(
                "{name} must be a URL that begins with https://, not {given}. http:// is allowed only for "
                "an authorization server on this machine.",
                name=name,
                given=ascii(given[:200]),
            )
        )


def _check_algorithms(settings: Settings) -> None:
    for given in settings.oauth_algorithms:
        if given not in ASYMMETRIC:
            raise ConfigurationError(
                say(
                    "oauth_algorithms: {given} cannot be allowed. Choose from {known}: their signatures "
                    "can be checked with a public key.",
                    given=ascii(given[:40]),
                    known=", ".join(ASYMMETRIC),
                )
            )


def _check_introspection(settings: Settings) -> None:
    if not (settings.oauth_client_id and settings.oauth_client_secret):
        raise ConfigurationError(
            say("oauth_introspection_url needs oauth_client_id and oauth_client_secret. Set both.")
        )
    if not re.fullmatch(_VARIABLE, settings.oauth_client_secret):
        raise ConfigurationError(  # without the value, which may be the secret itself
            say(
                "oauth_client_secret must be a variable, such as ${{OAUTH_SECRET}}. Write the secret itself "
                "to {path} as OAUTH_SECRET=…",
                path=settings.home / "secrets.env",
            )
        )
