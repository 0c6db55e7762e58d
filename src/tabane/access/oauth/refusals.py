"""Refusals of access tokens: their reasons, the challenge to a client, and the metadata that it names.

Sources: RFC 6750 for challenges, RFC 9728 for the metadata of a protected resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from tabane.errors import TabaneError, Unauthorized
from tabane.messages import Message, say

TokenFault = Literal[
    "malformed",
    "algorithm",
    "key",
    "signature",
    "type",
    "issuer",
    "audience",
    "expired",
    "early",
    "subject",
    "bound",
    "inactive",
    "scope",
]
"""The fault of a token, in one word, for the log, the audit and the metrics."""

_SHOWN = 80

_TEXTS: dict[TokenFault, Message] = {
    "malformed": say("it is malformed"),
    "algorithm": say("its algorithm is not allowed"),
    "key": say("the authorization server has no such key"),
    "signature": say("its signature is wrong"),
    "type": say("it is not an access token"),
    "issuer": say("another authorization server issued it"),
    "audience": say("it was issued for another resource"),
    "expired": say("it has expired"),
    "early": say("it is not valid yet"),
    "subject": say("it names neither a user nor a client"),
    "bound": say("it is bound to a key of its client, which this hub cannot check"),
    "inactive": say("the authorization server says that it is not active"),
    "scope": say("it has no scope that allows anything here"),
}


class TokenRefused(Unauthorized):
    """An access token that is not accepted.

    ``fault`` is the reason in one word. ``detail`` is for the hub's log: it may quote claims of the token,
    but never the token itself. ``error`` and ``status`` are those of RFC 6750, section 3.1.
    """

    error: ClassVar[str] = "invalid_token"
    status: ClassVar[int] = 401

    def __init__(self, fault: TokenFault, detail: str = "") -> None:
        super().__init__(
            say(
                "The access token is refused: {reason}. Get a new one from the authorization server.",
                reason=_TEXTS[fault],
            )
        )
        self.fault, self.detail = fault, detail


class ScopeMissing(TokenRefused):
    """A valid access token without a scope that allows anything. ``scopes`` would allow something."""

    error = "insufficient_scope"
    status = 403

    def __init__(self, scopes: tuple[str, ...], detail: str = "") -> None:
        super().__init__("scope", detail)
        self.scopes = scopes


class AuthorizationServerUnavailable(TabaneError):
    """A token cannot be checked now. ``detail`` is for the log; ``retry_after`` is in seconds."""

    reason = "authorization"
    status: ClassVar[int] = 503

    def __init__(self, detail: str, retry_after: float) -> None:
        super().__init__(
            say(
                "The access token cannot be checked, because the authorization server does not answer "
                "as expected. Try again in {seconds} s. The reason is in the hub's log: tabane logs",
                seconds=max(1, round(retry_after)),
            )
        )
        self.detail, self.retry_after = detail, retry_after


def quoted(value: object) -> str:
    """Return a claim for the log, on one short line."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


WELL_KNOWN = "/.well-known/oauth-protected-resource"


def metadata_url(resource: str) -> str:
    """Return where the metadata of a resource is: its path comes after the well-known one."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def resource_metadata(resource: str, issuer: str, scopes: Sequence[str]) -> dict[str, Any]:
    """Return the metadata document."""
    return {
        "resource": resource,
        "authorization_servers": [issuer],
        "scopes_supported": list(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": "Tabane",
    }


def challenge(metadata: str, refused: TokenRefused | None = None) -> str:
    """Return the header WWW-Authenticate for a request without a token, or with one that is refused.

    ``metadata`` is the URL of the metadata.
    """
    fields = {"realm": "tabane"}
    if refused is not None:
        fields |= {"error": refused.error, "error_description": str(refused)}
    if isinstance(refused, ScopeMissing) and refused.scopes:
        fields["scope"] = " ".join(refused.scopes)
    fields["resource_metadata"] = metadata
    # Between the quotes, RFC 6750 allows no quote and no backslash.
    values = ("".join(c for c in value if " " <= c <= "~" and c not in '"\\') for value in fields.values())
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in zip(fields, values, strict=True))
