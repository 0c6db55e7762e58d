"""Imported cookies over a real HTTPS server: where they are sent, and where they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabane.errors import ReadError
from tabane.reader.cookies import CookieJar, ImportedCookie
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.interface import FetchedResource, SentCookies
from tabane.reader.guard import target
from tests.reader.site import Answer, Asked, Site, running

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


def set_cookies(site: Site, path: str, to: str, *cookies: str) -> None:
    """A redirect that sets cookies, each in a header of its own."""
    site.ask(path, lambda _: Answer(302, headers={"Location": to}, cookies=cookies))


def follow(site: Site, url: str) -> list[tuple[str, str | None]]:
    read(site, jar_of(site), url)
    return [(where, cookie) for where, _, cookie in sent(site)]


def test_a_cookie_set_by_a_redirect_is_sent_back_in_the_same_read_alone(site: Site) -> None:
    def page(asked: Asked) -> Answer:
        if "seen=1" in asked.headers.get("cookie", ""):
            return Answer(body=b"<p>Read</p>")
        return Answer(302, headers={"Location": "/a"}, cookies=("seen=1; Path=/; HttpOnly",))

    site.ask("/a", page)
    for _ in range(2):
        site.asked.clear()
        assert follow(site, site.url("/a", "docs.test")) == [("docs.test/a", None), ("docs.test/a", "seen=1")]


@pytest.mark.parametrize(
    ("cookie", "host", "path", "back"),
    [
        ("a=1", "docs.test", "/x/b", "a=1"),  # of the folder of /x/a
        ("a=1", "docs.test", "/y", None),
        ("a=1; Path=/", "docs.test", "/y", "a=1"),
        ("a=1; Path=/y", "docs.test", "/yes", None),
        ("a=1; Path=/", "www.docs.test", "/y", None),
        ("a=1; Path=/; Domain=docs.test", "www.docs.test", "/y", "a=1"),
        ("a=1; Path=/; Domain=.docs.test", "docs.test", "/y", "a=1"),
        ("a=1; Path=/; Domain=other.test", "other.test", "/y", None),
        ("a=1; Path=/; Domain=test", "other.test", "/y", None),
        ("a=1; Path=/; Domain=www.docs.test", "www.docs.test", "/y", None),
        ("a=1; Path=/; Secure", "docs.test", "/y", None),
        ("a=1; Path=/; Max-Age=0", "docs.test", "/y", None),
        ("a=1; Path=/; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "docs.test", "/y", "a=1"),
        ("a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "docs.test", "/y", None),
        ("a=b=c; path=/", "docs.test", "/y", "a=b=c"),
        ("nameless; Path=/", "docs.test", "/y", None),
        ("a=" + "x" * 9000 + "; Path=/", "docs.test", "/y", None),
    ],
)
def test_a_set_cookie_goes_where_a_browser_sends_it(
    site: Site, cookie: str, host: str, path: str, back: str | None
) -> None:
    set_cookies(site, "/x/a", site.url(path, host), cookie)
    site.put(path, "<p>B</p>")
    assert follow(site, site.url("/x/a", "docs.test"))[-1] == (host + path, back)


def test_several_cookies_with_commas_are_kept_apart_and_the_last_of_a_name_counts(site: Site) -> None:
    dated = "a=1; Path=/; Expires=Fri, 01 Jan 2100 00:00:00 GMT"
    set_cookies(site, "/a", "/b", dated, "b=2; Path=/", "a=3; Path=/")
    set_cookies(site, "/b", "/c", "b=; Path=/; Max-Age=-1")
    site.put("/c", "<p>C</p>")
    assert [cookie for _, cookie in follow(site, site.url("/a", "docs.test"))] == [None, "b=2; a=3", "a=3"]


def test_an_imported_cookie_is_replaced_by_that_which_its_site_sets(site: Site) -> None:
    set_cookies(site, "/a", "/b", "sid=new; Path=/")
    site.put("/b", "<p>B</p>")
    read(site, jar_of(site, sid(), ImportedCookie("other", "1", "docs.test")), site.secure("/a", "docs.test"))
    assert [cookie for _, _, cookie in sent(site)] == ["sid=secret; other=1", "other=1; sid=new"]


def test_a_site_that_sets_other_cookies_for_ever_ends(site: Site) -> None:
    turns = iter(range(1000))
    site.ask("/a", lambda _: Answer(302, headers={"Location": "/a"}, cookies=(f"n={next(turns)}; Path=/",)))
    with pytest.raises(ReadError, match="more than 10 times"):
        read(site, jar_of(site), site.url("/a", "docs.test"))
