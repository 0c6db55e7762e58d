"""Logins at a server on the official SDK, through a whole hub: its operations, its calls, its state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import TabaneError, UpstreamUnavailable
from tabane.operations import Caller, Face
from tests.harness.login_site import LoginSite, changed, login_site
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, SocketClient, running_hub, text


class SignedHub:
    """A hub in front of the site, and a program that calls its operations."""

    def __init__(self, here: RunningHub, site: LoginSite, line: SocketClient, folder: Path) -> None:
        self.here, self.site, self.line, self.folder = here, site, line, folder

    async def call(self, operation: str, /, **params: Any) -> Json:
        caller = Caller("local", Face.RPC, "program")
        body = json.dumps(params).encode()
        answer = await self.here.hub.door.respond(caller, operation, body, _encoded)
        found: Json = json.loads(answer)
        return found

    async def log_in(self, **params: Any) -> Json:
        begun = await self.call("start_login", server="up", **params)
        await self.site.browse(begun["url"])
        return await self.state()

    async def state(self) -> Json:
        return await self.call("get_login", server="up", wait=30)

    async def ready(self) -> None:
        async def listed() -> bool:
            return bool((await self.row())["tools"])

        await until(listed, "the tools appear")

    async def row(self) -> Json:
        rows = (await self.call("list_servers"))["results"]
        return next(row for row in rows if row["name"] == "up")

    async def refused(self, tool: str) -> str:
        """The text of a call that fails."""
        answer = await self.line.request("tools/call", {"name": f"up__{tool}", "arguments": {"text": "x"}})
        if "error" in answer:
            message: str = answer["error"]["message"]
            return message
        assert answer["result"]["isError"], answer
        return text(answer["result"])

    async def echo(self, words: str = "hello") -> str:
        return text(await self.line.call("up__echo", text=words))


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@asynccontextmanager
async def signed_hub(
    folder: Path, site: LoginSite, oauth: Any = None, settings: Json | None = None, **keys: Any
) -> AsyncIterator[SignedHub]:
    definition = {"url": site.url, **({"oauth": oauth} if oauth is not None else {}), **keys}
    async with running_hub(folder, {"up": definition}, **(settings or {})) as here:
        line = await here.connect("2025-11-25", mode="full")
        yield SignedHub(here, site, line, folder)


async def test_a_server_that_requires_a_login_says_so_and_starts_once_it_is_done(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        with pytest.raises(UpstreamUnavailable):
            await hub.here.hub.gateway.start("up")
        row = await hub.row()
        assert row["state"] == "login required"
        assert row["error"] == "up requires a login. Run: tabane servers login up"
        assert row["login"]["state"] == "needed"
        starts = hub.here.hub.gateway.instance("up").vitals.starts
        refused = await hub.line.request("tools/call", {"name": "up__echo", "arguments": {"text": "x"}})
        assert "tabane servers login up" in json.dumps(refused)
        assert hub.here.hub.gateway.instance("up").vitals.starts == starts  # no restart in a loop

        assert (await hub.log_in())["state"] == "signed_in"
        assert "ログインしました" in site.page
        await hub.ready()
        assert await hub.echo() == "hello"
        assert (await hub.row())["state"] == "ready"


async def test_the_login_follows_the_specification(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        [registration] = site.registered.values()
        assert registration["application_type"] == "native"
        assert registration["redirect_uris"][0].startswith("http://localhost:")
        [asked] = site.forms("/as/authorize")
        assert asked["resource"] == site.url
        assert asked["scope"].split() == ["read", "offline_access"]
        [form] = site.forms("/as/token")
        assert form["resource"] == site.url
        assert "client_secret" not in form


async def test_a_hub_that_is_started_again_uses_the_login_and_the_registration(tmp_path: Path) -> None:
    async with login_site() as site:
        async with signed_hub(tmp_path, site) as hub:
            await hub.log_in()
            await hub.ready()
        assert (tmp_path / "logins.json").stat().st_mode & 0o777 == 0o600
        async with signed_hub(tmp_path, site) as hub:
            await hub.here.hub.gateway.start("up")
            assert await hub.echo() == "hello"
            site.revoke()
            begun = await hub.call("start_login", server="up")
            assert begun["redirect"] in site.forms("/as/register")[0]["redirect_uris"]
        assert len(site.registered) == 1


@pytest.mark.parametrize("rotating", [False, True])
async def test_a_hundred_waiting_calls_renew_the_token_with_one_request(
    tmp_path: Path, rotating: bool
) -> None:
    async with login_site(rotating=rotating) as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()
        site.expire()
        site.token_gate.clear()
        calls = [asyncio.ensure_future(hub.echo(str(number))) for number in range(100)]
        await until(lambda: site.forms("/as/token", "refresh_token"), "the token is being renewed")
        site.token_gate.set()
        assert await asyncio.gather(*calls) == [str(number) for number in range(100)]
        assert len(site.forms("/as/token", "refresh_token")) == 1


async def test_a_token_is_renewed_before_its_end(tmp_path: Path) -> None:
    async with login_site(life=2) as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()

        async def renewed() -> bool:
            assert await hub.echo() == "hello"
            return len(site.forms("/as/token", "refresh_token")) >= 2

        await until(renewed, "it was renewed twice")
        assert (await hub.state())["state"] == "signed_in"


async def test_a_login_whose_tokens_were_revoked_is_required_again(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()
        site.revoke()
        refused = await hub.refused("echo")
        assert "requires a new login" in refused
        assert f"{site.issuer}/authorize?" in refused
        assert (await hub.call("get_login", server="up"))["state"] == "waiting"  # that page is open
        assert (await hub.log_in())["state"] == "signed_in"
        assert await hub.echo() == "hello"


async def test_a_registration_that_was_forgotten_is_made_again(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()
        site.registered.clear()
        site.expire()
        assert "requires a new login" in await hub.refused("echo")
        assert (await hub.log_in())["state"] == "signed_in"
        assert len(site.forms("/as/register")) == 2


async def test_a_registration_without_end_may_say_so_with_any_number(tmp_path: Path) -> None:
    answer = (("client_secret_expires_at", 10**400),)
    async with login_site(registration_answer=answer) as site, signed_hub(tmp_path, site) as hub:
        assert (await hub.log_in())["state"] == "signed_in"


async def test_a_call_that_lacks_a_permission_asks_for_a_login_with_it(tmp_path: Path) -> None:
    async with login_site(scope_of=(("publish", "write"),)) as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()
        refused = await hub.refused("publish")
        assert "more permissions for this call (write)" in refused
        assert await hub.echo() == "hello"
        await hub.log_in()
        assert site.forms("/as/authorize")[-1]["scope"].split() == ["read", "offline_access", "write"]
        assert text(await hub.line.call("up__publish", text="x")) == "published x"


async def test_a_permission_that_a_login_does_not_give_is_not_asked_for_again(tmp_path: Path) -> None:
    async with login_site(scope_of=(("publish", "never"),)) as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()
        await hub.refused("publish")
        await hub.log_in()
        site.access = {token: (end, _without(grant, "never")) for token, (end, grant) in site.access.items()}
        refused = await hub.refused("publish")
        assert "although the login requested what it asks for" in refused


def _without(grant: Any, scope: str) -> Any:
    grant.scope = " ".join(word for word in grant.scope.split() if word != scope)
    return grant


@pytest.mark.parametrize("status", [400, 200])
async def test_a_login_with_a_code_on_another_device(tmp_path: Path, status: int) -> None:
    async with login_site(refusal_status=status) as site, signed_hub(tmp_path, site) as hub:
        begun = await hub.call("start_login", server="up", flow="device")
        assert begun["verification_url"] == f"{site.issuer}/enter"
        await until(lambda: len(site.forms("/as/token")) > 1, "the hub polls again")
        site.approve(begun["user_code"])
        assert (await hub.state())["state"] == "signed_in"
        await hub.ready()
        assert await hub.echo() == "hello"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_client_credentials_need_no_person(tmp_path: Path, method: str) -> None:
    oauth = {"grant": "client_credentials", "clientId": "robot:1", "clientSecret": "its & secret+"}
    flavor: Json = {"clients": (("robot:1", "its & secret+"),), "methods": (method,)}
    async with login_site(**flavor) as site, signed_hub(tmp_path, site, oauth) as hub:
        await hub.here.hub.gateway.start("up")
        assert await hub.echo() == "hello"
        assert (await hub.row())["login"]["state"] == "signed_in"
        site.expire()
        assert await hub.echo() == "hello"
        assert "its & secret+" not in (tmp_path / "logins.json").read_text()


async def test_client_credentials_with_a_private_key(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    file = tmp_path / "robot.pem"
    file.write_bytes(private)
    file.chmod(0o600)
    oauth = {"grant": "client_credentials", "clientId": "robot", "privateKey": str(file)}
    flavor: Json = {"clients": (("robot", public.decode()),)}
    async with login_site(**flavor) as site, signed_hub(tmp_path, site, oauth) as hub:
        await hub.here.hub.gateway.start("up")
        assert await hub.echo() == "hello"


async def test_a_client_that_is_described_by_a_document_is_not_registered(tmp_path: Path) -> None:
    document = "https://example.com/tabane.json"
    given = {"login_client_metadata_url": document}
    flavor: Json = {"metadata_documents": True}
    async with login_site(**flavor) as site, signed_hub(tmp_path, site, settings=given) as hub:
        assert (await hub.log_in())["state"] == "signed_in"
        assert site.forms("/as/authorize")[0]["client_id"] == document
        assert not site.registered


@pytest.mark.parametrize(
    ("flavor", "oauth", "words"),
    [
        ({"registration": False}, None, 'set "clientId"'),
        ({"registration": False, "metadata_documents": True}, None, "clientMetadataUrl"),
        ({"pkce": False}, None, "PKCE"),
        ({"issuer": "http://127.0.0.1:1/as"}, None, "cannot be reached"),
        ({"issuer": "http://example.com/as"}, None, "HTTPS is required"),
        ({"resource": "https://example.com/mcp"}, None, "about another resource"),
        ({"metadata_status": 404}, None, "has no metadata"),
        ({"redirects_to": "http://127.0.0.1:1/x"}, None, "redirects to another site"),
        ({"padding": 1 << 18}, None, "more than 128 KiB"),
        ({"token_endpoint": "http://example.com/token"}, None, "not a safe URL"),
        ({}, {"issuer": "http://127.0.0.1:1/other"}, "cannot be reached"),
        ({}, False, '"oauth" is false'),
    ],
)
async def test_a_login_that_cannot_be_safe_does_not_begin(
    tmp_path: Path, flavor: Json, oauth: Any, words: str
) -> None:
    async with login_site(**flavor) as site, signed_hub(tmp_path, site, oauth) as hub:
        with pytest.raises(TabaneError) as refused:
            await hub.call("start_login", server="up")
        assert words in str(refused.value)
        assert "up" in str(refused.value)


@pytest.mark.parametrize(
    ("flavor", "words"), [({"iss": "wrong"}, "another issuer"), ({"declines": True}, "declined")]
)
async def test_an_answer_that_is_no_login_fails_it(tmp_path: Path, flavor: Json, words: str) -> None:
    async with login_site(**flavor) as site, signed_hub(tmp_path, site) as hub:
        found = await hub.log_in()
        assert found["state"] == "failed"
        assert words in found["reason"]
        assert not site.forms("/as/token")


async def test_the_url_of_a_return_is_bound_to_its_login_and_used_once(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        begun = await hub.call("start_login", server="up")
        landed = await site.browse(begun["url"], stop=True)
        state = landed.partition("state=")[2].partition("&")[0]
        with pytest.raises(TabaneError, match="No login waits"):
            await hub.call("finish_login", redirected_url=landed.replace(state, "x" * len(state)))
        with pytest.raises(TabaneError, match="No login waits"):
            await hub.call("finish_login", id="another", redirected_url=landed)
        assert (await hub.call("finish_login", id=begun["id"], redirected_url=landed))["state"] == "signed_in"
        with pytest.raises(TabaneError, match="No login waits"):
            await hub.call("finish_login", redirected_url=landed)


async def test_a_changed_url_never_gets_the_token_of_the_old_one(tmp_path: Path) -> None:
    async with login_site() as first, login_site() as second, signed_hub(tmp_path, first) as hub:
        await hub.log_in()
        await hub.ready()
        definition = {"url": second.url}
        await hub.call("change_server", name="up", definition=definition)
        hub.site = second
        await until(lambda: '"url"' not in (tmp_path / "logins.json").read_text(), "it is deleted")
        with pytest.raises(TabaneError):
            await hub.here.hub.gateway.start("up")
        assert (await hub.state())["state"] == "needed"
        assert (await hub.log_in())["state"] == "signed_in"


async def test_a_removed_server_takes_its_login_along(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.call("remove_server", name="up")
        await until(lambda: "access-" not in (tmp_path / "logins.json").read_text(), "it is deleted")


async def test_a_logout_revokes_the_tokens(tmp_path: Path) -> None:
    async with login_site() as site, signed_hub(tmp_path, site) as hub:
        await hub.log_in()
        await hub.ready()
        done = await hub.call("logout_server", server="up")
        assert done == {"server": "up", "was_signed_in": True, "revoked": True}
        assert not site.access
        assert not site.refresh
        assert "servers login up" in json.dumps(
            await hub.line.request("tools/call", {"name": "up__echo", "arguments": {"text": "x"}})
        )


async def test_credentials_set_by_hand_win(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer by-hand"}
    async with login_site() as site, signed_hub(tmp_path, site, headers=headers) as hub:
        with pytest.raises(TabaneError, match="requires credentials"):
            await hub.here.hub.gateway.start("up")
        with pytest.raises(TabaneError, match="has credentials already"):
            await hub.call("start_login", server="up")
        assert not site.log


async def test_a_server_that_names_no_metadata_is_still_found(tmp_path: Path) -> None:
    async with login_site(challenge=False) as site, signed_hub(tmp_path, site) as hub:
        with pytest.raises(TabaneError, match="requires a login"):
            await hub.here.hub.gateway.start("up")
        assert (await hub.log_in())["state"] == "signed_in"


async def test_a_server_of_the_old_kind_requires_a_login_too(tmp_path: Path) -> None:
    async with login_site("sse", resource="http://127.0.0.1") as site:
        changed(site, resource="")
        async with running_hub(tmp_path, {"up": {"url": f"{site.origin}/sse", "type": "sse"}}) as here:
            line = await here.connect("2025-11-25", mode="full")
            hub = SignedHub(here, site, line, tmp_path)
            with pytest.raises(TabaneError):
                await here.hub.gateway.start("up")
            assert (await hub.row())["state"] == "login required"


async def test_no_secret_of_a_login_is_shown_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "tabane")
    async with login_site(methods=("client_secret_post",)) as site:
        async with signed_hub(tmp_path, site) as hub:
            begun = await hub.call("start_login", server="up")
            landed = await site.browse(begun["url"], stop=True)
            code = landed.partition("code=")[2].partition("&")[0]
            await hub.call("finish_login", redirected_url=landed)
            await hub.ready()
            shown = [await hub.row(), await hub.call("show_server", name="up"), await hub.state()]
            secrets = [*site.secrets(), code]
        logged = [each.getMessage() for each in caplog.records if each.name.startswith("tabane")]
        seen = "\n".join((json.dumps(shown), *logged, _contents(tmp_path)))
        assert len(secrets) >= 4
        assert not [secret for secret in secrets if secret in seen]


def _contents(folder: Path) -> str:
    """What is in all files but that of the logins."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "logins.json")
    return "".join(path.read_bytes().decode(errors="replace") for path in files)
