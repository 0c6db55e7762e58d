"""A real authorization server, npm's oidc-provider, and what clients ask of it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import httpx2

from tests.harness.patience import LONG

_PROGRAM = Path(__file__).parents[1] / "harness" / "servers" / "authorization_server.mjs"
CALLBACK = "http://127.0.0.1/callback"


class RealAuthorizationServer:
    """The running server. ``url`` is its issuer."""

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url, self._http = url, http

    @staticmethod
    def secret(client: str) -> str:
        return f"secret of {client} & +"

    async def token(self, resource: str, scope: str = "tabane:read", client: str = "machine") -> str:
        """Return an access token for a resource, issued to a client that acts for itself."""
        form = {"grant_type": "client_credentials", "scope": scope, "resource": resource}
        return cast("str", (await self._post("/token", form, client))["access_token"])

    async def revoke(self, token: str, client: str = "opaque") -> None:
        answer = await self._http.post("/token/revocation", data={"token": token}, auth=self._login(client))
        answer.raise_for_status()

    async def sign_in(self, resource: str, scope: str = "openid tabane:read") -> Mapping[str, Any]:
        """Return the tokens of a user who signs in through the client ``browser``."""
        verifier = base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=")
        asked = {
            "client_id": "browser",
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": scope,
            "resource": resource,
            "nonce": "n",
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        landed = await self.follow(f"{self.url}/auth?{urlencode(asked)}")
        form = {
            "grant_type": "authorization_code",
            "code": parse_qs(urlsplit(landed).query)["code"][0],
            "redirect_uri": CALLBACK,
            "code_verifier": verifier.decode(),
            "client_id": "browser",
            "resource": resource,
        }
        return await self._post("/token", form)

    async def follow(self, url: str) -> str:
        """Return where a browser lands that follows the redirects of the server, signing in on its way."""
        for _ in range(10):
            answer = await self._http.get(url)
            assert answer.is_redirect, answer.text
            url = str(httpx2.URL(url).join(answer.headers["location"]))
            if not url.startswith(self.url):
                return url
        raise AssertionError("too many redirects")

    async def rotate(self) -> None:
        """Let it sign with new keys, and publish the old ones no more."""
        await self._http.post("/control/keys")

    async def delay(self, seconds: float) -> None:
        """Let it answer that much later."""
        await self._http.post(f"/control/delay?{seconds * 1000:.0f}")

    async def counts(self) -> Mapping[str, int]:
        """Return how often each path was asked."""
        return cast("Mapping[str, int]", (await self._http.get("/control/counts")).json())

    async def _post(self, path: str, form: Mapping[str, str], client: str = "") -> Mapping[str, Any]:
        login = httpx2.BasicAuth(*self._login(client)) if client else httpx2.USE_CLIENT_DEFAULT
        answer = await self._http.post(path, data=dict(form), auth=login)
        assert answer.status_code == 200, answer.text
        return cast("Mapping[str, Any]", answer.json())

    def _login(self, client: str) -> tuple[str, str]:
        return client, quote_plus(self.secret(client))


@asynccontextmanager
async def authorization_server(node_tools: Path) -> AsyncIterator[RealAuthorizationServer]:
    """Run the server while the block runs. ``node_tools`` is the folder of Node.js."""
    provider = node_tools.parent / "node_modules" / "oidc-provider" / "lib" / "index.js"
    process = await asyncio.create_subprocess_exec(
        *(str(node_tools / "node"), str(_PROGRAM), str(provider)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), LONG)).decode().strip()
        assert url, "the authorization server did not start"
        async with httpx2.AsyncClient(base_url=url, timeout=LONG, trust_env=False) as http:
            yield RealAuthorizationServer(url, http)
    finally:
        process.kill()
        await process.wait()
