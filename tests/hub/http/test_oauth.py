"""OAuth over HTTP, end to end: a real authorization server, a real hub, and the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tabane.hub.http.authentication import HttpIdentities
from tabane.hub.people.oauth import HubOAuth
from tests.harness.authorization_server import RealAuthorizationServer, authorization_server
from tests.harness.http_hub import HttpHub, http_hub, modern, request
from tests.harness.patience import LONG
from tests.harness.running_hub import child


class MemoryStorage:
    """Keeps the tokens and the registration of one client."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class OpenedHub:
    """The hub's OAuth; the settings and the port are known once the hub runs."""

    def __init__(self) -> None:
        self.hub: HttpHub | None = None
        self._oauth: HubOAuth | None = None

    @property
    def oauth(self) -> HubOAuth:
        assert self.hub is not None
        here = self.hub
        self._oauth = self._oauth or HubOAuth(here.hub.context, lambda: here.mcp_url)
        return self._oauth

    async def verify(self, token: str) -> Any:
        return await self.oauth.verify(token)


class OAuthIdentities(HttpIdentities):
    """The holders of tokens, with the metadata of the hub's OAuth."""

    def __init__(self, opened: OpenedHub) -> None:
        super().__init__(tokens=opened)
        self._opened = opened

    def resource_metadata(self) -> tuple[str, bytes] | None:
        return self._opened.oauth.metadata()


@asynccontextmanager
async def oauth_hub(server: RealAuthorizationServer, folder: Path, **settings: Any) -> AsyncIterator[HttpHub]:
    opened = OpenedHub()
    identities = OAuthIdentities(opened)
    servers = {"up": child()}
    given = {"oauth_issuer": server.url, **settings}
    async with http_hub(folder, servers, identities=identities, list_wait=20, **given) as here:
        opened.hub = here
        try:
            yield here
        finally:
            await opened.oauth.close()


@pytest.mark.node
async def test_requests_are_answered_as_rfc_6750_and_9728_say(node_tools: Path, tmp_path: Path) -> None:
    async with authorization_server(node_tools) as server, oauth_hub(server, tmp_path) as here:
        peer = await here.peer()
        message, headers = modern(request("tools/list"))
        missing = await peer.post(message, "/mcp/full", **{**headers, "authorization": None})
        assert missing.status == 401
        place = here.mcp_url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        assert f'resource_metadata="{place}"' in missing.headers["www-authenticate"]
        for path in ("", "/mcp", "/mcp/full"):
            found = await peer.get(f"/.well-known/oauth-protected-resource{path}", authorization=None)
            assert found.json["resource"] == here.mcp_url
            assert found.json["authorization_servers"] == [server.url]
        for token, status, error in (
            (await server.token(here.mcp_url), 200, ""),
            (await server.token(here.mcp_url, "other"), 403, "insufficient_scope"),
            (await server.token("http://127.0.0.1:9/mcp"), 401, "invalid_token"),
            ("nonsense", 401, "invalid_token"),
        ):
            answer = await peer.post(message, "/mcp/full", **{**headers, "authorization": f"Bearer {token}"})
            assert answer.status == status
            assert error in answer.headers.get("www-authenticate", "")
            assert token not in answer.body.decode()


@pytest.mark.node
async def test_a_dead_authorization_server_is_no_fault_of_the_client(
    node_tools: Path, tmp_path: Path
) -> None:
    async with authorization_server(node_tools) as server:
        token = await server.token("http://127.0.0.1:9/mcp")
    async with oauth_hub(server, tmp_path) as here:
        message, headers = modern(request("tools/list"))
        answer = await (await here.peer()).post(message, **{**headers, "authorization": f"Bearer {token}"})
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0


@pytest.mark.node
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client_signs_in_and_calls_a_tool(
    node_tools: Path, tmp_path: Path, mode: Any
) -> None:
    async with authorization_server(node_tools) as server, oauth_hub(server, tmp_path) as here:
        landed: list[str] = []

        async def redirect(url: str) -> None:
            landed.append(await server.follow(url))

        async def callback() -> AuthorizationCodeResult:
            found = parse_qs(urlsplit(landed[-1]).query)
            given = {name: found[name][0] for name in ("code", "state", "iss") if name in found}
            return AuthorizationCodeResult(**given)

        metadata = OAuthClientMetadata(
            client_name="Test",
            redirect_uris=[AnyUrl("http://127.0.0.1/callback")],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",
            application_type="native",
        )
        auth = OAuthClientProvider(here.mcp_url, metadata, MemoryStorage(), redirect, callback)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=LONG, trust_env=False) as http,
            Client(streamable_http_client(here.mcp_url, http_client=http), mode=mode) as client,
        ):
            result = await client.call_tool("up__echo", {"text": "やあ"})
            assert result.structured_content == {"text": "やあ"}
        assert len(landed) == 1
