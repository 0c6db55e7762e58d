"""Metadata of the hub as a protected resource (RFC 9728), and challenges to clients (RFC 6750)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from tabane.access.oauth.refusals import ScopeMissing, TokenRefused

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def metadata_url(resource: str) -> str:
    """Return where the metadata of a resource is: its path comes after the well-known one."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def is_metadata_path(path: str) -> bool:
    """Return whether the metadata is served at a path: of the hub as a whole, and of each URL of MCP."""
    suffix = path.removeprefix(WELL_KNOWN)
    return path.startswith(WELL_KNOWN) and (suffix in ("", "/mcp") or suffix.startswith("/mcp/"))


def resource_metadata(resource: str, issuer: str, scopes: Sequence[str]) -> dict[str, Any]:
    """Return the metadata document."""
    return {
        "resource": resource,
        "authorization_servers": [issuer],
        "scopes_supported": list(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": "Tabane",
    }


def challenge(resource: str, refused: TokenRefused | None = None) -> str:
    """Return the header WWW-Authenticate for a request without a token, or with one that is refused."""
    fields = {"realm": "tabane"}
    if refused is not None:
        fields |= {"error": refused.error, "error_description": str(refused)}
    if isinstance(refused, ScopeMissing) and refused.scopes:
        fields["scope"] = " ".join(refused.scopes)
    fields["resource_metadata"] = metadata_url(resource)
    return "Bearer " + ", ".join(f'{name}="{_quotable(value)}"' for name, value in fields.items())


def _quotable(value: str) -> str:
    """Return what may stand between quotes in a header: RFC 6750 allows no quote and no backslash."""
    return "".join(c for c in value if " " <= c <= "~" and c not in '"\\')
