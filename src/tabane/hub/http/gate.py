"""Who may come in over HTTP: the host that was meant, the page that asks, the token that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabane.hub.http.request import JSON_HEAD, HeaderList, Reply, Request, Turned, refusal
from tabane.wire.http import allowed_host, allowed_origin, bearer, same_token

if TYPE_CHECKING:
    from tabane.hub.http.door import HttpDoor

METHODS = b"GET, POST, DELETE, OPTIONS"
HEADERS = (
    b"accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
    b"mcp-session-id"
)
"""What a page may send. Mirrored arguments have names of their own: those that it asks for are added."""

EXPOSED = b"mcp-session-id, retry-after, www-authenticate"
PREFLIGHT_AGE = b"7200"


class Gate:
    """Looks at a request before anything else does."""

    def __init__(self, door: HttpDoor) -> None:
        self._door = door

    def check(self, request: Request) -> None:
        """Raises Turned: 421 for another host, 403 for a page that may not ask."""
        settings = self._door.settings
        host = request.headers.get("host")
        if not allowed_host(host, self._door.port, (settings.host,)):
            # A name that an attacker's DNS has lead here.
            raise refusal(421, "Host: this hub is reached as 127.0.0.1 or localhost")
        origin = request.headers.get("origin")
        if not allowed_origin(origin, settings.origins):
            raise refusal(
                403, "Origin: pages from there may not use this hub; the setting origins allows them"
            )
        if origin is not None:
            request.extra += _shared_with(origin)

    def check_token(self, request: Request) -> None:
        """Raises Turned with 401 where the token is missing or wrong."""
        if self._fits(bearer(request.headers.get("authorization"))):
            return
        raise self._without_token("authorization" in request.headers)

    def knows(self, request: Request, shown: str | None = None) -> bool:
        """Whether the token is shown, by the header or as ``shown``. Raises Turned (401) for a wrong one."""
        if "authorization" in request.headers:
            shown = bearer(request.headers.get("authorization")) or ""
        if self._fits(shown):
            return True
        if shown is not None:
            raise self._without_token(True)
        return False

    def _fits(self, shown: str | None) -> bool:
        token = self._door.token
        return token is None or same_token(shown, token)

    def _without_token(self, shown: bool) -> Turned:
        challenge = b'Bearer realm="tabane"' + (b', error="invalid_token"' if shown else b"")
        text = (
            f"the token of the hub is needed: Authorization: Bearer, with what {self._door.token_path} holds"
        )
        return refusal(
            401, text, (b"www-authenticate", challenge), data={"token": str(self._door.token_path)}
        )

    def preflight(self, request: Request) -> Turned:
        """What a browser is told that asks whether a page may ask."""
        wanted = request.headers.get("access-control-request-headers", "").lower().split(",")
        mirrored = [name.strip() for name in wanted if name.strip().startswith("mcp-param-")]
        allowed = b", ".join([HEADERS, *(name.encode("latin-1") for name in mirrored if _is_name(name))])
        headers: HeaderList = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", PREFLIGHT_AGE),
        ]
        if request.headers.get("access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return Turned(Reply(204, b"", headers))


def _shared_with(origin: str) -> HeaderList:
    return [
        (b"access-control-allow-origin", origin.strip().encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED),
        (b"vary", b"origin"),
    ]


def _is_name(text: str) -> bool:
    return text.isascii() and all(c.isalnum() or c in "-_" for c in text)


def json_reply(status: int, body: bytes) -> Reply:
    return Reply(status, body, JSON_HEAD)
