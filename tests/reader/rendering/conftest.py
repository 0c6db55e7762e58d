"""A real browser, and pages of the local site shown in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tabane.reader.fetching.interface import FetchedResource, Policy
from tabane.reader.rendering import BrowserChoice, PageRenderer, RenderLimits
from tabane.reader.rendering.chromium import browser as found
from tests.conftest import absent
from tests.reader.site import Site

Show = Callable[..., FetchedResource]


@pytest.fixture(scope="session")
def browser() -> str:
    path = found("", os.environ)
    if path is None:
        absent("chromium")
    assert path is not None
    return path


def rendering(
    site: Site, browser: str | None, limits: dict[str, Any] | None = None, **more: Any
) -> PageRenderer:
    """A renderer that reaches the site, by every name that it has."""
    policy = site.policy(**more.pop("policy", {}))
    limits = {"patience": 0.4} | (limits or {})  # the pages of tests are short, and complete at once
    more.setdefault("resolve", site.names)
    scrolls, sandbox = more.pop("settings", 0), more.pop("sandbox", True)
    begin = more.pop("begin", lambda: None)

    def policy_now() -> Policy:
        begin()  # a renderer asks for the policy when it begins to show a page
        return policy

    return PageRenderer(
        policy_now,
        lambda: BrowserChoice(browser, sandbox, scrolls),
        os.environ,
        limits=replace(RenderLimits(), **limits),
        **more,
    )


@pytest.fixture
def show(site: Site, browser: str) -> Show:
    """Shows what is at a URL: ``show(url, limits={}, policy={}, scrolls=0, …)``."""

    def shown(url: str, program: str = browser, scrolls: int | None = None, **more: Any) -> FetchedResource:
        async def scenario() -> FetchedResource:
            it = rendering(site, program, **more)
            try:
                fetched = await it.render(url, scrolls=scrolls)
            finally:
                await it.close()
            assert fetched is not None
            return fetched

        return asyncio.run(scenario())

    return shown
