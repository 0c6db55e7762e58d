"""Codes that the user enters on another device (RFC 8628)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tabane.messages import say
from tabane.servers.oauth_keys import OAuthOptions
from tabane.upstreams.logins.fetching import LoginHttp
from tabane.upstreams.logins.kept_login import KeptLogin
from tabane.upstreams.logins.metadata import is_safe
from tabane.upstreams.logins.oauth_messages import with_fields
from tabane.upstreams.logins.token_requests import TokensRefused, client_request, resource_fields

_INTERVAL = 5.0
_LONGEST_INTERVAL = 60.0
_LIFE = 600.0


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A code for the user, the page on which to enter it, and the secret with which the hub asks for tokens.

    ``url`` is the page with the code filled in, empty if there is none. ``interval``, ``life``: seconds.
    """

    code: str = field(repr=False)
    user_code: str
    page: str
    url: str
    interval: float
    life: float

    def describe(self) -> dict[str, Any]:
        shown = {"user_code": self.user_code, "verification_url": self.page}
        return shown | ({"url": self.url} if self.url else {})


async def device_code(
    http: LoginHttp, login: KeptLogin, options: OAuthOptions, endpoint: str, scopes: tuple[str, ...]
) -> DeviceCode:
    """Return a new code. Raises TokensRefused and LoginRequestFailed."""
    form = with_fields("", {**({"scope": " ".join(scopes)} if scopes else {}), **resource_fields(login)})
    answer = await client_request(http, login, options, endpoint, form)
    document = answer.document
    code, user_code, page = (document.get(key) for key in ("device_code", "user_code", "verification_uri"))
    if answer.status != 200 or not isinstance(code, str) or not _is_shown(user_code):
        why = answer.explanation() or answer.error() or str(answer.status)
        raise TokensRefused(
            answer.error(), say("{issuer} gives no code ({why})", issuer=login.issuer, why=why)
        )
    if not isinstance(page, str) or not is_safe(page, loopback=http.loopback):
        raise TokensRefused("", say("{issuer} names no safe page for the code", issuer=login.issuer))
    whole = document.get("verification_uri_complete")
    return DeviceCode(
        code,
        str(user_code),
        page,
        whole if isinstance(whole, str) and is_safe(whole, loopback=http.loopback) else "",
        min(_LONGEST_INTERVAL, max(1.0, _seconds(document.get("interval"), _INTERVAL))),
        max(1.0, _seconds(document.get("expires_in"), _LIFE)),
    )


def _is_shown(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable()


def _seconds(value: object, default: float) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if usable else default  # type: ignore[arg-type]
