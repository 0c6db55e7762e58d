"""Logins at an authorization server that nobody here wrote: npm's oidc-provider."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from tests.harness.authorization_server import RealAuthorizationServer, authorization_server
from tests.harness.login_site import LoginSite, changed, login_site
from tests.harness.patience import until
from tests.upstreams.logins.test_logins import SignedHub, signed_hub


def claims(token: str) -> dict[str, Any]:
    """What a token says; {} if it is none. The tests trust the server that they have started."""
    try:
        found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        return {}
    return found


def of_site(site: LoginSite, *audiences: str) -> LoginSite:
    """Let the site take tokens for those audiences alone, and note those that it takes."""
    site.taken = []

    def accepts(token: str) -> bool:
        fine = claims(token).get("aud") in audiences
        if fine:
            site.taken.append(token)
        return fine

    changed(site, accepts=accepts)
    return site


async def log_in(real: RealAuthorizationServer, hub: SignedHub) -> Any:
    """Do what a browser does with the URL of a login. Return the state of the login."""
    begun = await hub.call("start_login", server="up")
    landed = await real.follow(begun["url"])
    async with httpx2.AsyncClient(trust_env=False) as browser:
        await browser.get(landed)
    return await hub.state()


@pytest.mark.heavy("real servers as processes")
async def test_the_hub_registers_logs_in_and_renews(tmp_path: Path, node_tools: Path) -> None:
    async with (
        authorization_server(node_tools) as real,
        login_site(issuer=real.url, wants="tabane:read") as site,
        signed_hub(tmp_path, of_site(site, site.url)) as hub,
    ):
        assert (await log_in(real, hub))["state"] == "signed_in"
        await hub.ready()
        assert await hub.echo() == "hello"
        first = site.taken[-1]
        assert claims(first)["aud"] == site.url
        counts = await real.counts()
        assert (counts["/reg"], counts["/token"]) == (1, 1)

        accepts = site.flavor.accepts
        assert accepts is not None
        changed(site, accepts=lambda token: token != first and accepts(token))
        said = await asyncio.gather(*(hub.echo(str(number)) for number in range(100)))
        assert said == [str(number) for number in range(100)]
        assert (await real.counts())["/token"] == 2  # one request for all of them


async def test_a_token_that_the_server_does_not_accept_is_not_used_in_a_loop(
    tmp_path: Path, node_tools: Path
) -> None:
    """The authorization server issues tokens for the right audience, and the server wants another one."""
    async with (
        authorization_server(node_tools) as real,
        login_site(issuer=real.url, wants="tabane:read") as site,
        signed_hub(tmp_path, of_site(site, "https://other.example/mcp")) as hub,
    ):
        await log_in(real, hub)

        async def refused() -> bool:
            return bool((await hub.row())["state"] == "login required")

        await until(refused, "the server has refused the token")
        asked = (await real.counts())["/token"]
        assert asked <= 2  # the code, and at most one renewal
        assert "does not accept its token" in (await hub.row())["error"]
        await hub.refused("echo")
        assert (await real.counts())["/token"] == asked


async def test_a_slow_authorization_server_is_waited_for(tmp_path: Path, node_tools: Path) -> None:
    async with (
        authorization_server(node_tools) as real,
        login_site(issuer=real.url, wants="tabane:read") as site,
        signed_hub(tmp_path, of_site(site, site.url)) as hub,
    ):
        await real.delay(1)
        assert (await log_in(real, hub))["state"] == "signed_in"
        await real.delay(0)
        await hub.ready()
        assert await hub.echo() == "hello"
