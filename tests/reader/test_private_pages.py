"""Pages that are read with imported cookies: marked, and never cached, saved or rendered."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import ReadError, TabaneError
from tabane.operations import Caller, Door, Face, OperationTable
from tabane.reader import result_text
from tabane.reader.cookies import CookieFolder, CookieJar, ImportedCookie
from tabane.reader.fetching import PageFetcher
from tabane.reader.operations import PrivateReader, ReaderOperations
from tabane.reader.page import Page
from tabane.reader.page_cache import PageCache
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.table import reader_table
from tabane.reader.url_reader import UrlReader
from tabane.wire import json
from tests.reader.fakes import FakeConverting
from tests.reader.shelves import shelved
from tests.reader.site import Answer, Asked, Site

SECRET = "value-of-the-cookie"
ANN, BOB = (Caller(name, Face.RPC, "1") for name in ("ann", "bob"))
HOSTS = ("docs.test", "other.test")
NOW = 1_000.0


async def as_it_is(page: Page, *, raw: bool = False) -> Page:
    return page


@dataclass
class Desk:
    """The operations on pages, with the cookies of ``folder``, which only Ann may use."""

    folder: CookieFolder
    private: PrivateReader
    shelf: PageCache
    door: Door
    noted: list[Caller] = field(default_factory=list)
    saved: list[Page] = field(default_factory=list)

    def keep(self, port: int = 443, **cookie: Any) -> None:
        given = ImportedCookie("sid", SECRET, "docs.test", **{"host_only": False, **cookie})
        self.folder.keep(CookieJar("docs.test", port, (given,)))

    async def call(self, name: str, url: str, caller: Caller = ANN, **params: Any) -> Any:
        return await self.door.invoke(caller, name, json.encode({"url": url} | params))

    async def read(self, url: str, caller: Caller = ANN, **params: Any) -> Any:
        return await self.call("read_url_content", url, caller, **params)


@asynccontextmanager
async def opened(site: Site, home: Path, **changes: Any) -> AsyncIterator[Desk]:
    home.chmod(0o700)
    allowed = tuple(f"{host}:{port}" for host in HOSTS for port in (site.port, site.secure_port))
    policy = site.policy(allowed=allowed, **changes)
    fetcher, converting = PageFetcher(lambda: policy, resolve=site.names), FakeConverting()
    folder, tools = CookieFolder(home), ReadingTools(fetcher, converting)
    noted: list[Caller] = []
    saved: list[Page] = []

    async def remember(caller: Caller, page: Page) -> str:
        saved.append(page)
        return "key"

    async with shelved() as here:
        public = UrlReader(tools, shelf=here.shelf, show=as_it_is)
        private = PrivateReader(
            folder, lambda caller: caller is ANN, lambda _: fetcher, converting, as_it_is, lambda: NOW
        )
        reader = ReaderOperations(lambda _: public, here.shelf, remember, private=private, noted=noted.append)
        door = Door(OperationTable(reader_table(lambda: reader, lambda: reader)))
        try:
            yield Desk(folder, private, here.shelf, door, noted, saved)
        finally:
            await fetcher.close()


def account(asked: Asked) -> Answer:
    known = f"sid={SECRET}" in asked.headers.get("cookie", "")
    return Answer(body=b"Ann's invoice." if known else b"Sign in.", media_type="text/plain")


async def test_a_private_page_is_marked_and_neither_cached_nor_saved(site: Site, tmp_path: Path) -> None:
    site.ask("/account", account)
    url = site.secure("/account", "docs.test")
    async with opened(site, tmp_path) as desk:
        public = await desk.read(url)
        assert (public["content"], public.get("private"), public["warnings"]) == ("Sign in.", None, [])
        desk.keep(site.secure_port)
        for form in ("markdown", "raw"):
            value = await desk.read(url, format=form)
            assert (value["content"], value["private"]) == ("Ann's invoice.", True)
            assert "must not be passed on" in value["warnings"][0]
        assert "\nprivate: true\n" in result_text.assistant(value, "en")
        audited = desk.door.table.get("read_url_content")
        assert audited is not None
        assert audited.remark is not None
        assert (audited.remark(value), audited.remark(public)) == ("with cookies", "")
        assert len(desk.noted) == 2
        with pytest.raises(TabaneError, match="not saved as documents"):
            await desk.call("remember_url", url)
        assert desk.saved == []
        asked = len(site.asked)
        assert asked == 3
        assert (await desk.read(url, BOB))["content"] == "Sign in."  # the public page, from the cache
        cached = [await desk.shelf.get(url, raw=raw) for raw in (False, True)]
        assert [each and each.page.markdown for each in cached] == ["Sign in.", None]
        assert (len(site.asked), len(desk.noted)) == (asked, 2)


@pytest.mark.parametrize(
    ("url", "cookie", "caller", "used", "warning"),
    [
        ("https://docs.test/a", {}, ANN, True, ""),
        ("https://www.docs.test/a", {}, ANN, True, ""),
        ("https://www.docs.test/a", {"host_only": True}, ANN, False, ""),
        ("https://docs.test/a", {}, BOB, False, ""),
        ("https://other.test/a", {}, ANN, False, ""),
        ("https://docs.test:8443/a", {}, ANN, False, ""),
        ("http://docs.test/a", {}, ANN, False, "only over HTTPS, .* Read https://docs.test/a to use them"),
        ("http://docs.test:8080/a", {}, ANN, False, ""),
        ("https://docs.test/a", {"expires": NOW + 1}, ANN, True, ""),
        ("https://docs.test/a", {"expires": NOW}, ANN, False, "cookies of docs.test have expired"),
        ("https://docs.test/a", None, ANN, False, ""),
    ],
)
async def test_cookies_are_used_for_their_host_over_https_by_whoever_may(
    site: Site,
    tmp_path: Path,
    url: str,
    cookie: dict[str, Any] | None,
    caller: Caller,
    used: bool,
    warning: str,
) -> None:
    async with opened(site, tmp_path) as desk:
        if cookie is not None:
            desk.keep(**cookie)
        decision = await desk.private.decide(caller, url)
        assert (decision.jar is not None) is used
        said = "" if decision.warning is None else decision.warning.render("en")
        assert re.search(warning, said) if warning else not said


@pytest.mark.parametrize(
    ("path", "cookie", "private", "warning"),
    [
        ("/here", {}, True, "must not be passed on"),
        ("/away", {}, True, "redirected to other.test:.* where the cookies are not sent"),
        ("/here", {"path": "/app"}, False, ""),  # no cookie is sent to that path
        ("/here", {"expires": NOW}, False, "have expired"),
    ],
)
async def test_a_page_is_private_if_a_cookie_was_sent_for_it(
    site: Site, tmp_path: Path, path: str, cookie: dict[str, Any], private: bool, warning: str
) -> None:
    site.put("/here", "Here.", "text/plain")
    site.redirect("/away", site.secure("/here", "other.test"))
    async with opened(site, tmp_path) as desk:
        desk.keep(site.secure_port, **cookie)
        value = await desk.read(site.secure(path, "docs.test"))
        assert value.get("private", False) is private
        assert bool(desk.noted) is private
        assert re.search(warning, " ".join(value["warnings"])) if warning else not value["warnings"]
        assert SECRET not in str(value)


@pytest.mark.parametrize(("path", "sent"), [("/closed", True), ("/forbidden", False)])
async def test_a_failure_names_the_cookies_only_if_they_were_sent(
    site: Site, tmp_path: Path, path: str, sent: bool
) -> None:
    site.put("/closed", "No.", status=403)
    site.put("/robots.txt", "User-agent: *\nDisallow: /forbidden\n", "text/plain")
    async with opened(site, tmp_path, robots=True) as desk:
        desk.keep(site.secure_port)
        with pytest.raises(ReadError) as failed:
            await desk.read(site.secure(path, "docs.test"))
        assert ("With the imported cookies of docs.test:" in str(failed.value)) is sent
        assert (failed.value.cause, failed.value.status) == (("status", 403) if sent else ("robots", None))
        assert SECRET not in str(failed.value)
        assert desk.noted == []


async def test_a_private_page_is_not_opened_in_a_browser(site: Site, tmp_path: Path) -> None:
    site.put("/app", "<main>All that there is without a program.</main>")
    async with opened(site, tmp_path) as desk:
        desk.keep(site.secure_port)
        value = await desk.read(site.secure("/app", "docs.test"), scrolls=2)
        assert "not opened in a browser" in " ".join(value["warnings"])


@pytest.mark.parametrize("private", [True, False])
async def test_parts_follow_each_other_though_a_private_page_differs_each_time(
    site: Site, tmp_path: Path, private: bool
) -> None:
    visits, text = (
        itertools.count(),
        "".join(f"## Part {n}\n\n{'Word after word. ' * 60}\n\n" for n in range(9)),
    )
    site.ask(
        "/long",
        lambda _: Answer(body=f"# Visit {next(visits)}\n\n{text}".encode(), media_type="text/markdown"),
    )
    url = site.secure("/long", "docs.test")
    async with opened(site, tmp_path) as desk:
        if private:
            desk.keep(site.secure_port)
        first = await desk.read(url, max_tokens=900)
        second = await desk.read(url, cursor=first["next_cursor"])
        assert second["start"] == first["end"]
        assert any("text may be missing or repeated" in warning for warning in second["warnings"]) is private
        assert next(visits) == (2 if private else 1)
