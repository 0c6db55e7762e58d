"""Imported cookies over a real HTTPS server: where they are sent, and where they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabane.errors import ReadError
from tabane.reader.cookies.imported_cookies import CookieJar, ImportedCookie
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.interface import FetchedResource, SentCookies
from tabane.reader.guard import target
from tests.reader.site import Site, running

HOSTS = ("docs.test", "www.docs.test", "other.test", "localhost")


@pytest.fixture(scope="module")
def running_site() -> Iterator[Site]:
    with running() as site:
        yield site


@pytest.fixture
def site(running_site: Site) -> Site:
    running_site.clear()
    return running_site


def jar_of(site: Site, *cookies: ImportedCookie, host: str = "docs.test") -> CookieJar:
    return CookieJar(host, site.secure_port, cookies)


def sid(domain: str = "docs.test", *, host_only: bool = False, path: str = "/") -> ImportedCookie:
    return ImportedCookie("sid", "secret", domain, path, host_only)


def read(site: Site, jar: CookieJar, *urls: str, **changes: object) -> tuple[list[FetchedResource], bool]:
    """Fetch the URLs as one read of the first does, and return whether cookies were sent."""
    allowed = tuple(f"{host}:{port}" for host in HOSTS for port in (site.port, site.secure_port))
    policy = site.policy(allowed=allowed, **changes)
    cookies = SentCookies(jar, target(urls[0]).origin)

    async def go() -> list[FetchedResource]:
        fetcher = PageFetcher(lambda: policy, resolve=site.names)
        try:
            bound = fetcher.with_cookies(cookies)
            return [await bound.fetch(url) for url in urls]
        finally:
            await fetcher.close()

    return asyncio.run(go()), cookies.sent


def sent(site: Site) -> list[tuple[str, bool, str | None]]:
    """Return what each request was for, whether it was secure, and its cookies."""
    return [
        (asked.host.partition(":")[0] + asked.target, asked.secure, asked.headers.get("cookie"))
        for asked in site.asked
    ]


def test_cookies_are_sent_over_https_to_their_host_and_path(site: Site) -> None:
    site.put("/a", "<p>A</p>", headers={"Set-Cookie": "sid=other"})
    site.put("/app/b", "<p>B</p>")
    jar = jar_of(site, sid(), ImportedCookie("app", "1", "docs.test", "/app"))
    at = site.secure("/a", "docs.test")
    _, used = read(site, jar, at, site.secure("/app/b", "docs.test"), at)
    assert used
    assert [cookie for _, _, cookie in sent(site)] == ["sid=secret", "app=1; sid=secret", "sid=secret"]


def test_no_cookie_is_sent_without_tls(site: Site) -> None:
    site.put("/a", "<p>A</p>")
    plain = CookieJar("docs.test", site.port, (sid(),))
    _, used = read(site, plain, site.url("/a", "docs.test"))
    assert not used
    assert sent(site) == [("docs.test/a", False, None)]


@pytest.mark.parametrize(
    ("host", "secure"), [("other.test", True), ("docs.test", False), ("other.test", False)]
)
def test_a_redirect_elsewhere_ends_the_use_of_cookies_also_when_it_comes_back(
    site: Site, host: str, secure: bool
) -> None:
    away = (site.secure if secure else site.url)("/away", host)
    site.redirect("/a", away)
    site.redirect("/away", site.secure("/back", "docs.test"))
    site.put("/back", "<p>Back</p>")
    read(site, jar_of(site, sid()), site.secure("/a", "docs.test"))
    assert sent(site) == [
        ("docs.test/a", True, "sid=secret"), (f"{host}/away", secure, None), ("docs.test/back", True, None),
    ]  # fmt: skip


def test_a_read_that_begins_elsewhere_never_sends_them(site: Site) -> None:
    site.redirect("/short", site.secure("/account/delete", "docs.test"))
    site.put("/account/delete", "<p>Done</p>")
    for begin in (site.secure("/short", "other.test"), site.url("/short", "docs.test")):
        site.asked.clear()
        _, used = read(site, jar_of(site, sid()), begin)
        assert not used
        assert [cookie for _, _, cookie in sent(site)] == [None, None]


def test_hosts_below_get_cookies_of_the_domain_but_not_those_of_the_host_alone(site: Site) -> None:
    site.redirect("/a", site.secure("/b", "www.docs.test"))
    site.put("/b", "<p>B</p>")
    own = ImportedCookie("own", "1", "docs.test", "/", host_only=True)
    read(site, jar_of(site, sid(), own), site.secure("/a", "docs.test"))
    assert [cookie for _, _, cookie in sent(site)] == ["sid=secret; own=1", "sid=secret"]


def test_a_host_above_the_imported_one_gets_none(site: Site) -> None:
    site.redirect("/a", site.secure("/b", "docs.test"))
    site.put("/b", "<p>B</p>")
    read(site, jar_of(site, sid(), host="www.docs.test"), site.secure("/a", "www.docs.test"))
    assert [cookie for _, _, cookie in sent(site)] == ["sid=secret", None]


def test_what_a_page_names_is_fetched_with_cookies_from_its_own_origin_only(site: Site) -> None:
    for path in ("/a", "/a.md", "/logout"):
        site.put(path, "<p>A</p>")
    urls = [
        site.secure("/a", "docs.test"), site.secure("/a.md", "docs.test"),
        site.secure("/logout", "www.docs.test"),
    ]  # fmt: skip
    read(site, jar_of(site, sid()), *urls)
    assert [cookie for _, _, cookie in sent(site)] == ["sid=secret", "sid=secret", None]


def test_robots_txt_is_fetched_without_cookies(site: Site) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /closed\n", "text/plain")
    site.put("/a", "<p>A</p>")
    read(site, jar_of(site, sid()), site.secure("/a", "docs.test"), robots=True)
    assert sent(site) == [("docs.test/robots.txt", True, None), ("docs.test/a", True, "sid=secret")]


async def test_cookies_of_an_answer_are_not_kept_and_other_reads_have_none(site: Site) -> None:
    site.put("/a", "<p>A</p>", headers={"Set-Cookie": "fresh=1"})
    at = site.secure("/a")
    policy = site.policy()
    fetcher = PageFetcher(lambda: policy)
    try:
        await fetcher.with_cookies(
            SentCookies(jar_of(site, sid("localhost"), host="localhost"), target(at).origin)
        ).fetch(at)
        answer = await fetcher.fetch(at)
    finally:
        await fetcher.close()
    assert "set-cookie" not in answer.headers
    assert [cookie for _, _, cookie in sent(site)] == ["sid=secret", None]


async def test_cookies_count_as_sent_when_the_request_fails(site: Site) -> None:
    site.put("/a", "No", status=403)
    at = site.secure("/a")
    cookies = SentCookies(jar_of(site, sid("localhost"), host="localhost"), target(at).origin)
    policy = site.policy()
    fetcher = PageFetcher(lambda: policy)
    with pytest.raises(ReadError, match="403"):
        await fetcher.with_cookies(cookies).fetch(at)
    await fetcher.close()
    assert cookies.sent
