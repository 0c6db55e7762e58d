"""The search in the registry on the page that adds a server, in a real browser."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.harness.home import CHILD
from tests.harness.mcp_registry import LocalRegistry, entry, npm
from tests.web.browser.axe import Axe
from tests.web.browser.hub import PATIENCE, WebBrowsers, WebHome

expect.set_options(timeout=PATIENCE)

UNITS = {"name": "UNITS", "value": "metric"}


@pytest.fixture
def registry() -> Iterator[LocalRegistry]:
    package = npm("@acme/weather", "1.2.3", environmentVariables=[UNITS])
    weather = entry(
        "io.github.acme/weather",
        title="Weather",
        description="<b>Weather</b> of the world",
        repository={"url": "https://github.com/acme/weather", "source": "github"},
        packages=[package],
        remotes=[{"type": "streamable-http", "url": "https://weather.example/mcp"}],
    )
    old = entry("io.github.acme/weather-old", status="deprecated", packages=[npm(registryType="mcpb")])
    with LocalRegistry([weather, old]).running() as registry:
        yield registry


@pytest.fixture
def web_home(tmp_path: Path, registry: LocalRegistry) -> Iterator[WebHome]:
    """A running hub that asks this registry, and an npx that runs the child of the tests."""
    home = WebHome(tmp_path, registry_url=registry.url)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npx").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{CHILD}"\n')
    (programs / "npx").chmod(0o755)
    home.environment["PATH"] = f"{programs}{os.pathsep}{home.environment['PATH']}"
    home.start()
    yield home
    home.run("stop")


def test_a_server_is_found_filled_in_tested_and_added(
    web: WebBrowsers, registry: LocalRegistry, accessibility: Axe
) -> None:
    page = web.page("/servers/-/add")
    page.get_by_text("Find in the registry").click()
    page.get_by_role("searchbox", name="Search the registry").fill("weather")
    page.get_by_role("button", name="Find", exact=True).click()
    found = page.get_by_role("list", name="Servers of the registry")
    expect(found.get_by_text("<b>Weather</b> of the world")).to_be_visible()
    expect(found.get_by_text("MCP bundles are not supported.")).to_be_visible()
    assert accessibility.serious(page) == []
    found.get_by_role("button", name="Use io.github.acme/weather").first.click()
    expect(page.get_by_label("Command")).to_have_value("npx")
    expect(page.get_by_label("Name")).to_have_value("weather")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.locator("#server-trial").get_by_text("works and has")).to_be_visible()
    page.get_by_role("button", name="Add…").click()
    page.get_by_role("button", name="Add the server").click()
    expect(page.locator("#notices")).to_contain_text("Added weather")
    written = json.loads(web.home.servers.read_text())["mcpServers"]["weather"]
    assert (written["args"], written["env"]) == (["-y", "@acme/weather@1.2.3"], {"UNITS": "metric"})


def test_a_registry_that_is_away_is_an_error_in_its_box(web: WebBrowsers, registry: LocalRegistry) -> None:
    page = web.page("/servers/-/add", width=390, lang="ja")
    registry.stop()
    page.get_by_text("レジストリから探す").click()
    page.get_by_role("searchbox").fill("weather")
    page.get_by_role("button", name="探す", exact=True).click()
    expect(page.get_by_text("レジストリに問い合わせできませんでした")).to_be_visible()
