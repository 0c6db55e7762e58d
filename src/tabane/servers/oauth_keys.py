"""The key "oauth" of a server in the servers file: its allowed values, and the values as one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from tabane.messages import say
from tabane.servers.key_values import InvalidKeyValue, is_plain

Grant = Literal["authorization_code", "client_credentials", "device_code"]
GRANTS: tuple[Grant, ...] = ("authorization_code", "client_credentials", "device_code")

TEXTS = (
    *("clientId", "clientSecret", "clientMetadataUrl", "resource", "audience", "issuer"),
    *("privateKey", "keyId", "algorithm"),
)
"""Members that are texts, in which variables are expanded."""

_LONGEST = 16_384
_MOST_SCOPES = 100


class OAuthOptions(Struct, frozen=True):
    """The login at a server, as the user configured it. An empty text is one that is not given.

    ``asked``: the servers file says that the server needs a login. ``private_key`` is a PEM text, or the path
    of a PEM file. ``redirect_port`` is the port of this computer to which the browser returns; 0 for any.
    """

    asked: bool = True
    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] | None = None
    grant: Grant = "authorization_code"
    resource: str = ""
    audience: str = ""
    redirect_port: int = 0
    issuer: str = ""
    private_key: str = ""
    key_id: str = ""
    algorithm: str = ""

    def __repr__(self) -> str:
        return f"OAuthOptions(grant={self.grant!r}, issuer={self.issuer!r})"

    def texts(self) -> dict[str, str]:
        """Return the texts in which variables are expanded, by their keys."""
        return {key: getattr(self, _FIELDS[key]) for key in TEXTS}

    def with_texts(self, texts: Mapping[str, str]) -> OAuthOptions:
        """Return the same options with other texts, given by their keys."""
        changed: dict[str, Any] = {_FIELDS[key]: text for key, text in texts.items()}
        return structs.replace(self, **changed)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values that are never shown."""
        return tuple(text for text in (self.client_secret, self.private_key) if text)


def oauth(value: object) -> OAuthOptions | Literal[False]:
    """Return the options of the key "oauth"; False if the server is used without a login."""
    if isinstance(value, bool):
        return OAuthOptions() if value else False
    if not isinstance(value, dict):
        raise InvalidKeyValue(say('true, false, or an object such as {"clientId": "…"}'))
    found: dict[str, Any] = {}
    for key, given in value.items():
        check = _CHECKS.get(key)
        if check is None:
            raise InvalidKeyValue(say("an object with {keys}", keys=", ".join(_CHECKS)), f".{key}")
        if given is not None:
            found[_FIELDS[key]] = check(key, given)
    options = OAuthOptions(**found)
    _check_together(options)
    return options


def _check_together(options: OAuthOptions) -> None:
    if options.grant == "client_credentials" and not options.client_id:
        raise InvalidKeyValue(say("an object with clientId, because of its grant"), ".clientId")
    if options.grant == "client_credentials" and not (options.client_secret or options.private_key):
        raise InvalidKeyValue(
            say("an object with clientSecret or privateKey, because of its grant"), ".clientSecret"
        )
    if (options.client_secret or options.private_key) and not options.client_id:
        raise InvalidKeyValue(say("an object with clientId beside the secret"), ".clientId")


def _text(key: str, value: object) -> str:
    if isinstance(value, str) and is_plain(value) and len(value) <= _LONGEST:
        return value
    raise InvalidKeyValue(say("a text in quotes"), f".{key}")


def _scopes(key: str, value: object) -> tuple[str, ...]:
    """Return scopes, written as a list or as one text with spaces."""
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) > _MOST_SCOPES or not all(map(is_scope, parts)):
        raise InvalidKeyValue(say("a list of scopes"), f".{key}")
    return tuple(dict.fromkeys(parts))


def is_scope(value: object) -> bool:
    """Return whether a value is a scope (RFC 6749, 3.3): printable ASCII without space, quote, backslash."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= 1_000
        and all("!" <= character <= "~" and character not in '"\\' for character in value)
    )


def _grant(key: str, value: object) -> Grant:
    for grant in GRANTS:
        if value == grant:
            return grant
    raise InvalidKeyValue(say("one of {choices}", choices=", ".join(GRANTS)), f".{key}")


def _port(key: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1_024 <= value <= 65_535:
        return value
    raise InvalidKeyValue(
        say("a whole number from {lowest} to {highest}", lowest=1_024, highest=65_535), f".{key}"
    )


_CHECKS: Mapping[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(TEXTS, _text),
    "scopes": _scopes,
    "grant": _grant,
    "redirectPort": _port,
}

_FIELDS = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "clientMetadataUrl": "client_metadata_url",
    "scopes": "scopes",
    "grant": "grant",
    "resource": "resource",
    "audience": "audience",
    "redirectPort": "redirect_port",
    "issuer": "issuer",
    "privateKey": "private_key",
    "keyId": "key_id",
    "algorithm": "algorithm",
}
