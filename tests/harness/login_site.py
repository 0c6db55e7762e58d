"""An MCP server on the official SDK that requires a login, and its authorization server, on one port.

The authorization server is the path ``/as`` of it. Its flavor says what it offers and how it misbehaves.
:meth:`LoginSite.browse` plays a person: it follows the redirects of a login page.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import parse_qs, unquote_plus, urlencode, urljoin

import httpx2
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.harness.patience import until

Json = dict[str, Any]


@dataclass(frozen=True)
class Flavor:
    """How the authorization server is, and what the MCP server says of it.

    ``life`` is the lifetime of access tokens in seconds. ``refusal_status`` is the status of refusals at its
    token endpoint: some servers on the internet answer them with 200. ``challenge``: the MCP server names its
    metadata in the answer to a request without a token. ``scope_of`` names tools that need a scope, and
    ``wants`` is the scope of all others. ``accepts`` says which tokens of other issuers are taken.
    ``registration_answer`` is added to the answer to a registration.
    """

    registration: bool = True
    metadata_documents: bool = False
    pkce: bool = True
    rotating: bool = False
    refresh: bool = True
    device: bool = True
    revocation: bool = True
    life: int = 3600
    challenge: bool = True
    metadata: bool = True
    issuer: str = ""
    resource: str = ""
    iss: Literal["right", "wrong", "missing"] = "right"
    metadata_status: int = 200
    redirects_to: str = ""
    padding: int = 0
    methods: tuple[str, ...] = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
    clients: tuple[tuple[str, str], ...] = ()
    scope_of: tuple[tuple[str, str], ...] = ()
    declines: bool = False
    token_endpoint: str = ""
    refusal_status: int = 400
    wants: str = "read"
    accepts: Callable[[str], bool] | None = None
    registration_answer: tuple[tuple[str, Any], ...] = ()


@dataclass
class _Grant:
    client: str
    scope: str
    resource: str
    challenge: str = ""
    redirect: str = ""
    approved: bool = False


@dataclass
class LoginSite:
    """The two servers. ``log`` has each request at the authorization server: its path, and its form."""

    flavor: Flavor
    port: int
    log: list[tuple[str, Json]] = field(default_factory=list)
    registered: dict[str, Json] = field(default_factory=dict)
    codes: dict[str, _Grant] = field(default_factory=dict)
    devices: dict[str, _Grant] = field(default_factory=dict)
    access: dict[str, tuple[float, _Grant]] = field(default_factory=dict)
    refresh: dict[str, _Grant] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    token_gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared: requests for tokens wait. Set at first."""

    def __post_init__(self) -> None:
        self.token_gate.set()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def issuer(self) -> str:
        return f"{self.origin}/as"

    def forms(self, path: str, grant: str = "") -> list[Json]:
        """The forms that were sent to an endpoint, of that kind of grant."""
        return [form for at, form in self.log if at == path and grant in ("", form.get("grant_type"))]

    def secrets(self) -> list[str]:
        """All that must not be seen anywhere."""
        given = [client.get("client_secret", "") for client in self.registered.values()]
        return [*self.access, *self.refresh, *self.codes, *self.devices, *filter(None, given)]

    def expire(self) -> None:
        """Let all access tokens end now; the hub does not know."""
        self.access = {token: (0.0, grant) for token, (_, grant) in self.access.items()}

    def revoke(self) -> None:
        """Accept no token any more."""
        self.access.clear()
        self.refresh.clear()

    def approve(self, user_code: str) -> None:
        next(grant for grant in self.devices.values() if grant.redirect == user_code).approved = True

    async def browse(self, url: str, *, redirect: str | None = None, stop: bool = False) -> str:
        """Follow a login page as a browser. Return the last URL, or with ``stop`` where it would return."""
        async with httpx2.AsyncClient(follow_redirects=False) as http:
            answer = await http.get(url)
            assert answer.status_code == 302, answer.text
            url = urljoin(url, answer.headers["location"])
            if not stop:
                self.page = (await http.get(url, headers={"Accept-Language": "ja"})).text
            return url

    # -- the authorization server ----------------------------------------------------------------

    async def answer(self, request: Request) -> Response:
        path = request.url.path
        if path.startswith("/.well-known/"):
            return self._well_known(path)
        form = {key: values[-1] for key, values in parse_qs((await request.body()).decode()).items()}
        if path == "/as/register":
            form = await request.json()
        self.log.append((path, form or dict(request.query_params)))
        handler = getattr(self, "_" + path.removeprefix("/as/"), None)
        if handler is None:
            return JSONResponse({"error": "not_found"}, 404)
        found = handler(request, form)
        answer: Response = await found if asyncio.iscoroutine(found) else found
        return answer

    def _well_known(self, path: str) -> Response:
        flavor = self.flavor
        self.log.append((path, {}))
        if path.startswith("/.well-known/oauth-protected-resource"):
            if not flavor.metadata or not path.endswith("/mcp"):
                return JSONResponse({}, 404)
            return JSONResponse(
                {
                    "resource": flavor.resource or self.url,
                    "authorization_servers": [flavor.issuer or self.issuer],
                }
            )
        if not path.startswith("/.well-known/oauth-authorization-server/as"):
            return JSONResponse({}, 404)
        if flavor.redirects_to:
            return RedirectResponse(flavor.redirects_to, 302)
        return JSONResponse(self._server_metadata(), flavor.metadata_status)

    def _server_metadata(self) -> Json:
        flavor, base = self.flavor, self.issuer
        return {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": flavor.token_endpoint or f"{base}/token",
            "token_endpoint_auth_methods_supported": list(flavor.methods),
            "authorization_response_iss_parameter_supported": flavor.iss != "missing",
            "scopes_supported": ["read", "write", "offline_access"],
            "padding": "x" * flavor.padding,
            **({"registration_endpoint": f"{base}/register"} if flavor.registration else {}),
            **({"code_challenge_methods_supported": ["S256"]} if flavor.pkce else {}),
            **({"client_id_metadata_document_supported": True} if flavor.metadata_documents else {}),
            **({"device_authorization_endpoint": f"{base}/device"} if flavor.device else {}),
            **({"revocation_endpoint": f"{base}/revoke"} if flavor.revocation else {}),
        }

    def _register(self, request: Request, form: Json) -> Response:
        client = "client-" + secrets.token_urlsafe(8)
        self.registered[client] = form
        given = {"client_id": client, "token_endpoint_auth_method": form["token_endpoint_auth_method"]}
        if form["token_endpoint_auth_method"] != "none":
            form["client_secret"] = given["client_secret"] = secrets.token_urlsafe(16)
        return JSONResponse(given | dict(self.flavor.registration_answer), 201)

    def _authorize(self, request: Request, form: Json) -> Response:
        query = dict(request.query_params)
        assert query["response_type"] == "code"
        known = self.registered.get(query["client_id"])
        if known is not None:
            assert query["redirect_uri"] in known["redirect_uris"]
        elif not self._is_known(query["client_id"]):
            return Response("unknown client", 400)
        answer = {"state": query["state"]}
        if self.flavor.iss != "missing":
            answer["iss"] = self.issuer if self.flavor.iss == "right" else "http://127.0.0.1:1/other"
        if self.flavor.declines:
            answer["error"] = "access_denied"
        else:
            answer["code"] = secrets.token_urlsafe(16)
            assert query["code_challenge_method"] == "S256"
            self.codes[answer["code"]] = _Grant(
                query["client_id"], query.get("scope", ""), query.get("resource", ""),
                query["code_challenge"], query["redirect_uri"],
            )  # fmt: skip
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    def _is_known(self, client: str) -> bool:
        documents = self.flavor.metadata_documents and client.startswith("https://")
        return documents or client in self.registered or client in dict(self.flavor.clients)

    async def _token(self, request: Request, form: Json) -> Response:
        await self.token_gate.wait()
        client = self._client(request, form)
        if client is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        kind = form["grant_type"]
        if kind == "authorization_code":
            grant = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if grant is None or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != grant.challenge:
                return JSONResponse({"error": "invalid_grant"}, self.flavor.refusal_status)
            assert (grant.client, grant.redirect) == (client, form["redirect_uri"])
            return self._tokens(grant)
        if kind == "refresh_token":
            old = self.refresh.get(form["refresh_token"])
            if old is None or old.client != client:
                return JSONResponse({"error": "invalid_grant"}, self.flavor.refusal_status)
            if self.flavor.rotating:
                del self.refresh[form["refresh_token"]]
            return self._tokens(old, rotated=self.flavor.rotating)
        if kind == "client_credentials":
            return self._tokens(_Grant(client, form.get("scope", ""), form.get("resource", "")), rotated=None)
        return self._device_token(form)

    def _device_token(self, form: Json) -> Response:
        device = self.devices.get(form.get("device_code", ""))
        if device is None:
            return JSONResponse({"error": "expired_token"}, self.flavor.refusal_status)
        if self.flavor.declines:
            return JSONResponse({"error": "access_denied"}, self.flavor.refusal_status)
        if not device.approved:
            return JSONResponse({"error": "authorization_pending"}, self.flavor.refusal_status)
        return self._tokens(device)

    def _client(self, request: Request, form: Json) -> str | None:
        """The client that a request comes from, None if it does not show that it is."""
        header = request.headers.get("authorization", "")
        secret = form.get("client_secret", "")
        client = form.get("client_id", "")
        if header.startswith("Basic "):
            pair = base64.b64decode(header.removeprefix("Basic ")).decode()
            client, secret = (unquote_plus(part) for part in pair.split(":"))
        wanted = dict(self.flavor.clients).get(
            client, self.registered.get(client, {}).get("client_secret", "")
        )
        if "client_assertion" in form:
            return client if self._is_signed(form["client_assertion"], str(wanted)) else None
        return client if self._is_known(client) and secrets.compare_digest(secret, wanted) else None

    def _is_signed(self, assertion: str, key: str) -> bool:
        import jwt

        with contextlib.suppress(jwt.PyJWTError):
            return bool(jwt.decode(assertion, key, ["RS256", "ES256"], audience=self.issuer))
        return False

    def _tokens(self, grant: _Grant, *, rotated: bool | None = True) -> Response:
        token = "access-" + secrets.token_urlsafe(24)
        self.access[token] = (time.time() + self.flavor.life, grant)
        answer: Json = {"access_token": token, "token_type": "Bearer", "expires_in": self.flavor.life}
        if grant.scope:
            answer["scope"] = grant.scope
        if rotated and self.flavor.refresh:
            answer["refresh_token"] = "refresh-" + secrets.token_urlsafe(24)
            self.refresh[answer["refresh_token"]] = grant
        return JSONResponse(answer, headers={"cache-control": "no-store"})

    def _device(self, request: Request, form: Json) -> Response:
        code, shown = secrets.token_urlsafe(16), secrets.token_hex(4).upper()
        self.devices[code] = _Grant(
            form["client_id"], form.get("scope", ""), form.get("resource", ""), redirect=shown
        )
        page = f"{self.issuer}/enter"
        answer = {"device_code": code, "user_code": shown, "verification_uri": page, "expires_in": 600}
        return JSONResponse(answer | {"interval": 1})

    def _revoke(self, request: Request, form: Json) -> Response:
        self.access.pop(form["token"], None)
        self.refresh.pop(form["token"], None)
        return Response(status_code=200)

    # -- the MCP server --------------------------------------------------------------------------

    def refusal(self, authorization: str, body: bytes) -> Response | None:
        """The answer to a request that has no valid token; None if it has one."""
        token = authorization.removeprefix("Bearer ")
        if self.flavor.accepts is not None and self.flavor.accepts(token):
            return None
        expires, grant = self.access.get(token, (0.0, None))
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        if grant is None or time.time() > expires or (grant.resource and grant.resource != self.url):
            challenge = f'Bearer error="invalid_token", {metadata}, scope="{self.flavor.wants}"'
            headers = {"www-authenticate": challenge} if self.flavor.challenge else {}
            return JSONResponse({"error": "invalid_token"}, 401, headers=headers)
        for tool, scope in self.flavor.scope_of:
            if f'"{tool}"'.encode() in body and b"tools/call" in body and scope not in grant.scope.split():
                challenge = f'Bearer error="insufficient_scope", scope="{scope}", {metadata}'
                return JSONResponse(
                    {"error": "insufficient_scope"}, 403, headers={"www-authenticate": challenge}
                )
        return None


def _guarded(site: LoginSite, app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        if not scope["path"].startswith(("/mcp", "/sse", "/messages")):
            await (await site.answer(request))(scope, receive, send)
            return
        body = await request.body()
        refusal = site.refusal(request.headers.get("authorization", ""), body)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        read = False

        async def again() -> Any:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await app(scope, again, send)

    return wrapped


def _mcp(kind: str) -> ASGIApp:
    server = MCPServer("guarded")

    @server.tool()
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool()
    def publish(text: str) -> str:
        """Publish a text."""
        return f"published {text}"

    @server.resource("guarded://text")
    def words() -> str:
        """Some words."""
        return "guarded words"

    @server.prompt()
    def greeting() -> str:
        """Greet."""
        return "guarded words"

    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if kind == "sse":
        return server.sse_app(transport_security=open_to_all)
    return server.streamable_http_app(transport_security=open_to_all)


@asynccontextmanager
async def login_site(kind: Literal["http", "sse"] = "http", **flavor: Any) -> AsyncIterator[LoginSite]:
    """The two servers, until the end of the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    site = LoginSite(Flavor(**flavor), listening.getsockname()[1])
    config = uvicorn.Config(_guarded(site, _mcp(kind)), log_config=None, access_log=False)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started, "the site listens")
    try:
        yield site
    finally:
        server.should_exit = server.force_exit = True
        await asyncio.wait([serving], timeout=5)
        serving.cancel()
        listening.close()


def changed(site: LoginSite, **flavor: Any) -> None:
    """Let the site be another way from now on."""
    site.flavor = replace(site.flavor, **flavor)
