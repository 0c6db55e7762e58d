"""OAuth of a hub, as its settings name it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.access.oauth.refusals import AuthorizationServerUnavailable
from tabane.errors import ConfigurationError, Unauthorized
from tabane.hub.context import HubContext
from tabane.hub.people.oauth import HubOAuth
from tabane.settings import load_settings
from tests.harness.authorization_server import authorization_server

HUB = "http://127.0.0.1:8765/mcp"


def hub_oauth(folder: Path, **flags: str) -> HubOAuth:
    settings = load_settings({"home": folder, **flags}, {"HOME": str(folder)})
    return HubOAuth(HubContext(settings, {}, asyncio.get_running_loop()), lambda: HUB)


async def test_without_an_authorization_server_nothing_is_accepted_or_published(tmp_path: Path) -> None:
    here = hub_oauth(tmp_path)
    assert not here.active
    assert here.metadata() is None
    with pytest.raises(Unauthorized):
        await here.verify("token")
    await here.close()


def test_libraries_of_oauth_are_not_imported_before_a_token() -> None:
    code = (
        "import sys, tabane.hub.people.oauth, tabane.access.oauth.resource\n"
        "print('jwt' in sys.modules, 'tabane.net.fetching' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


async def test_the_metadata_names_the_authorization_server(tmp_path: Path) -> None:
    here = hub_oauth(tmp_path, oauth_issuer="https://login.example.com")
    found = here.metadata()
    assert found is not None
    assert found[0] == "http://127.0.0.1:8765/.well-known/oauth-protected-resource/mcp"
    document = json.loads(found[1])
    assert document["resource"] == HUB
    assert document["authorization_servers"] == ["https://login.example.com"]
    assert document["scopes_supported"] == ["tabane:read", "tabane:*"]


async def test_wrong_scopes_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="oauth_scopes"):
        hub_oauth(tmp_path, oauth_issuer="https://login.example.com", oauth_scopes="read = @nowhere")


@pytest.mark.node
async def test_the_client_secret_comes_from_the_secrets_file(node_tools: Path, tmp_path: Path) -> None:
    async with authorization_server(node_tools) as server:
        here = hub_oauth(
            tmp_path,
            oauth_issuer=server.url,
            oauth_introspection_url=f"{server.url}/token/introspection",
            oauth_client_id="hub",
            oauth_client_secret="${HUB_SECRET}",
        )
        token = await server.token(HUB, client="opaque")
        with pytest.raises(AuthorizationServerUnavailable) as caught:
            await here.verify(token)
        assert "HUB_SECRET" in caught.value.detail
        secrets = tmp_path / "secrets.env"
        secrets.write_text(f'HUB_SECRET="{server.secret("hub")}"\n')
        secrets.chmod(0o600)
        assert (await here.verify(token)).holder == "oauth:client/opaque"
        await here.close()
