"""The hub as a resource of a real authorization server: npm's oidc-provider."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.access.oauth.refusals import AuthorizationServerUnavailable, TokenRefused
from tabane.access.oauth.resource import OAuthResource
from tabane.access.oauth.verifier import TokenClock
from tabane.operations.caller import CallTarget
from tabane.settings import load_settings
from tests.harness.authorization_server import RealAuthorizationServer, authorization_server

HUB = "http://127.0.0.1:8765/mcp"
LOOK = CallTarget("up__look", server="up", changes=False)
PUT = CallTarget("up__put", server="up")


class ShiftedTime:
    """The real time, moved by some seconds."""

    def __init__(self) -> None:
        self.shift = 0.0

    @property
    def clock(self) -> TokenClock:
        return TokenClock(lambda: time.time() + self.shift, lambda: time.monotonic() + self.shift)


class OAuthHub:
    """The hub as a resource of the server, with changed settings."""

    def __init__(self, server: RealAuthorizationServer, folder: Path) -> None:
        self.server, self.time, self._folder = server, ShiftedTime(), folder
        self.opened: list[OAuthResource] = []
        self.resource = self.configured()

    def configured(self, **changes: Any) -> OAuthResource:
        flags = {"home": self._folder, "oauth_issuer": self.server.url, **changes}
        settings = load_settings(flags, {"HOME": str(self._folder)})
        self.resource = OAuthResource(
            lambda: settings, lambda: HUB, lambda: self.server.secret("hub"), os.environ, self.time.clock
        )
        self.opened.append(self.resource)
        return self.resource

    def introspecting(self, **changes: Any) -> OAuthResource:
        return self.configured(
            **{
                "oauth_introspection_url": f"{self.server.url}/token/introspection",
                "oauth_client_id": "hub",
                "oauth_client_secret": "${SECRET}",
                **changes,
            }
        )

    async def fault(self, token: str) -> str:
        with pytest.raises(TokenRefused) as caught:
            await self.resource.verify(token)
        return caught.value.fault


@asynccontextmanager
async def oauth_hub(node_tools: Path, folder: Path) -> AsyncIterator[OAuthHub]:
    async with authorization_server(node_tools) as server:
        here = OAuthHub(server, folder)
        try:
            yield here
        finally:
            for resource in here.opened:
                await resource.close()


@pytest.mark.heavy("many cases")
@pytest.mark.node
async def test_tokens_for_the_hub_are_accepted_and_no_others(node_tools: Path, tmp_path: Path) -> None:
    async with oauth_hub(node_tools, tmp_path) as here, authorization_server(node_tools) as elsewhere:
        access = await here.resource.verify(await here.server.token(HUB))
        assert (access.holder, access.client) == ("oauth:machine", "machine")
        assert access.allows(LOOK)
        assert not access.allows(PUT)
        wide = await here.resource.verify(await here.server.token(HUB, "tabane:tool:up__*"))
        assert wide.allows(PUT)
        stranger = await here.resource.verify(await here.server.token(HUB, client="stranger"))
        assert stranger.holder == "oauth:stranger"
        assert await here.fault(await here.server.token("http://127.0.0.1:9/mcp")) == "audience"
        assert await here.fault(await here.server.token(HUB, "other")) == "scope"
        assert await here.fault(await elsewhere.token(HUB)) == "key"
        assert await here.fault("opaque-token-of-nobody") == "malformed"
        counts = await here.server.counts()
        assert counts["/jwks"] == 1


@pytest.mark.node
async def test_tokens_of_another_issuer_with_the_same_keys_are_refused(
    node_tools: Path, tmp_path: Path
) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        token = await here.server.token(HUB)
        here.configured(oauth_issuer="https://login.example.com", oauth_jwks_url=f"{here.server.url}/jwks")
        assert await here.fault(token) == "issuer"


@pytest.mark.node
async def test_a_user_signs_in_and_the_id_token_is_not_an_access_token(
    node_tools: Path, tmp_path: Path
) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        tokens: Mapping[str, str] = await here.server.sign_in(HUB)
        assert (await here.resource.verify(tokens["access_token"])).holder == "oauth:alice"
        assert await here.fault(tokens["id_token"]) == "audience"
        here.configured(oauth_audience="browser")
        assert await here.fault(tokens["id_token"]) == "type"
        assert here.resource.resource == HUB


@pytest.mark.node
async def test_a_token_is_refused_before_and_after_its_time(node_tools: Path, tmp_path: Path) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        token = await here.server.token(HUB)
        here.time.shift = -60
        assert await here.fault(token) == "early"
        here.time.shift = 0
        access = await here.resource.verify(token)
        here.time.shift = 640
        assert not access.allows(LOOK)
        assert await here.fault(token) == "expired"


@pytest.mark.node
async def test_rotated_keys_are_followed_without_a_restart(node_tools: Path, tmp_path: Path) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        old = await here.server.token(HUB)
        access = await here.resource.verify(old)
        await here.server.rotate()
        new = await here.server.token(HUB, client="stranger")
        assert await here.fault(new) == "key"
        here.time.shift = 61
        assert (await here.resource.verify(new)).allows(LOOK)
        assert not access.allows(LOOK)
        assert await here.fault(old) == "key"


@pytest.mark.node
async def test_opaque_tokens_are_introspected_and_revoked(node_tools: Path, tmp_path: Path) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        resource = here.introspecting()
        token = await here.server.token(HUB, client="opaque")
        access = await resource.verify(token)
        assert access.holder == "oauth:client/opaque"
        assert access.allows(LOOK)
        assert (
            await here.fault(await here.server.token("http://127.0.0.1:9/mcp", client="opaque")) == "audience"
        )
        assert await here.fault("invented") == "inactive"
        await here.server.revoke(token)
        assert await resource.verify(token) is access
        here.time.shift = 61
        assert await here.fault(token) == "inactive"
        assert not access.allows(LOOK)


@pytest.mark.node
async def test_introspection_with_a_wrong_secret_is_a_fault_of_the_setup(
    node_tools: Path, tmp_path: Path
) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        here.introspecting(oauth_client_id="machine")
        with pytest.raises(AuthorizationServerUnavailable) as caught:
            await here.resource.verify("opaque")
        assert "status 401" in caught.value.detail


@pytest.mark.node
async def test_a_slow_server_fails_one_request_and_stalls_nobody(node_tools: Path, tmp_path: Path) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        resource = here.introspecting(oauth_timeout=5)
        good, opaque = await here.server.token(HUB), await here.server.token(HUB, client="opaque")
        await resource.verify(good)
        await here.server.delay(60)
        slow = asyncio.ensure_future(resource.verify(opaque))
        await asyncio.sleep(0)
        assert (await resource.verify(good)).allows(LOOK)
        with pytest.raises(AuthorizationServerUnavailable) as caught:
            await slow
        assert "no answer within 5 s" in caught.value.detail


@pytest.mark.heavy("many cases")
@pytest.mark.node
async def test_a_dead_server_does_not_end_sessions_that_are_open(node_tools: Path, tmp_path: Path) -> None:
    async with oauth_hub(node_tools, tmp_path) as here:
        async with authorization_server(node_tools) as dying:
            resource = here.configured(oauth_issuer=dying.url)
            first, second = await dying.token(HUB), await dying.token(HUB, client="stranger")
            access = await resource.verify(first)
        assert await resource.verify(first) is access
        assert (await resource.verify(second)).holder == "oauth:stranger"
        other = here.configured(oauth_issuer=dying.url)
        with pytest.raises(AuthorizationServerUnavailable) as caught:
            await other.verify(first)
        assert dying.url in caught.value.detail


async def test_without_an_authorization_server_no_token_is_accepted(tmp_path: Path) -> None:
    settings = load_settings({"home": tmp_path}, {"HOME": str(tmp_path)})
    resource = OAuthResource(lambda: settings, lambda: HUB, str, {})
    assert not resource.active
    assert resource.metadata() is None
    assert resource.challenge() is None
    with pytest.raises(TokenRefused):
        await resource.verify("token")


async def test_changed_settings_end_what_the_old_server_allowed(tmp_path: Path) -> None:
    from tests.access.oauth.forging import AUDIENCE, ISSUER, MemoryRequests, claims, private_key, verifier

    here = verifier(MemoryRequests())
    access = await here.verify(private_key().sign(claims(exp=4e9, iss=ISSUER, aud=AUDIENCE)))
    assert access.allows(LOOK)
    here.retire()
    assert not access.allows(LOOK)
