"""The box "Find in the registry" of the page that adds a server."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import urlencode

from tests.harness.mcp_registry import LocalRegistry, entry, npm
from tests.web.visitor import WebVisitor, text, visitor, web_hub

HOSTILE = "<img src=x onerror=alert(1)>"
KEY = {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True}


async def found(person: WebVisitor, query: str) -> str:
    return text(await person.ask("GET", f"/servers/-/find?{urlencode({'q': query})}", hx_request="true"))


async def test_a_server_is_found_and_fills_the_form(tmp_path: Path) -> None:
    packages = [npm("@acme/weather", "1.2.3", environmentVariables=[KEY])]
    listed = entry("io.github.acme/weather", description=HOSTILE, title=HOSTILE, packages=packages)
    with LocalRegistry([listed]).running() as registry:
        async with web_hub(tmp_path, registry_url=registry.url) as here:
            person = await visitor(here)
            await person.sign_in()
            assert "Find in the registry" in text(await person.content("/servers/-/add"))
            shown = await found(person, "weather")
            assert "npx -y @acme/weather@1.2.3" in shown
            assert "Needs: WEATHER_KEY" in shown
            assert "<img" not in shown
            definition = html.unescape(shown.partition('name="json" value="')[2].partition('"')[0])
            filled = await person.ask(
                "POST",
                "/servers/-/view?to=form",
                urlencode({"view": "json", "name": "weather", "json": definition}).encode(),
                content_type="application/x-www-form-urlencoded",
                hx_request="true",
            )
            assert "WEATHER_KEY=${WEATHER_KEY}" in text(filled)
            assert "no server for" in await found(person, "nosuch")
            assert not (await found(person, " ")).strip()


async def test_why_the_registry_cannot_be_asked_is_shown(tmp_path: Path) -> None:
    async with web_hub(tmp_path, registry_url="off") as here:
        person = await visitor(here)
        await person.sign_in()
        assert "turned off" in await found(person, "weather")
