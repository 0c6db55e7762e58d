"""robots.txt by RFC 9309: what it says, and what its absence means."""

from __future__ import annotations

import asyncio
import re
from itertools import islice, product
from string import ascii_lowercase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ReadError
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.robots import RobotsRules, matches, rules
from tests.harness.patience import assert_in_proportion
from tests.reader.site import Answer, Asked, Site, endless, hang

MERGED = "User-agent: Tabane\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: TABANE\nDisallow: /c"
FIVE_ONE = """
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("product", "path", "allowed"),
    [
        ("other", "/a.gif", False),
        ("other", "/a.gif?x", True),
        ("other", "/example/a", False),
        ("other", "/example", True),
        ("other", "/publications/a", True),
        ("other", "/", True),
        ("FooBot", "/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/example/other", False),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("barbot", "/example/", True),
        ("quxbot", "/example/", True),
        ("quxbot", "/a.gif", True),
    ],
)
def test_the_example_of_the_standard(product: str, path: str, allowed: bool) -> None:
    assert rules(FIVE_ONE, product).allow(path) is allowed


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/", True),
        ("Disallow: /", "/", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("user-agent:*\ndisallow:/", "/a", False),
        ("User-agent: *\r\rDisallow: /a # why", "/a", False),
        ("\ufeffUser-agent: *\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /A", "/a", True),
        ("User-agent: *\nDisallow: /\nAllow: /", "/a", True),
        ("User-agent: *\nAllow: /a\nDisallow: /ab", "/abc", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Tabane\nDisallow: /x", "/a", True),
        ("User-agent: tabane/0.1 (reader)\nDisallow: /a", "/a", False),
        ("User-agent: Taba\nDisallow: /", "/a", True),
        (MERGED, "/c", False),
        (MERGED, "/b", True),
        ("User-agent: x\nCrawl-delay: 1\nUser-agent: Tabane\nDisallow: /", "/a", False),
        ("User-agent: *\nSitemap: https://x/\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow: /日本", "/%E6%97%A5%E6%9C%AC/x", False),
        ("User-agent: *\nDisallow: /%7ea", "/~a", False),
        ("User-agent: *\nDisallow: /a%2fb", "/a/b", True),
        ("User-agent: *\nDisallow: /a%2fb", "/a%2Fb", False),
        ("User-agent: *\nDisallow: /*?", "/a?b=c", False),
        ("User-agent: *\nDisallow: /*?", "/a", True),
        ("User-agent: *\nAllow: /*/filter/page=*/$\nDisallow: /", "/1/filter/page=5/", True),
        ("<!doctype html><p>User-agent: none", "/a", True),
    ],
)
def test_what_is_written_is_read_as_the_standard_says(text: str, path: str, allowed: bool) -> None:
    assert rules(text, "Tabane").allow(path) is allowed


@given(st.text("ab*$/", max_size=12), st.text("ab$/", max_size=12))
def test_patterns_match_as_their_regular_expressions_do(pattern: str, path: str) -> None:
    ends = pattern.endswith("$")
    wanted = ".*".join(map(re.escape, (pattern[:-1] if ends else pattern).split("*"))) + ("$" if ends else "")
    assert matches(pattern, path) == bool(re.match(wanted, path))


@given(st.text(max_size=200))
def test_no_robots_txt_is_too_odd_to_be_read(text: str) -> None:
    rules(f"User-agent: *\nDisallow: {text}\n{text}", "Tabane").allow("/" + text)


def test_a_pattern_made_to_take_for_ever_does_not() -> None:
    evil = rules("User-agent: *\n" + "Disallow: " + "*a" * 400 + "b\n" * 2, "Tabane")
    assert len(evil.lines) == 1
    assert_in_proportion(lambda size: evil.allow("/" + "a" * size), 900)


def test_rules_without_lines_allow_everything() -> None:
    assert RobotsRules().allow("/anything")


# Against a site


def read(site: Site, *paths: str, **changes: Any) -> list[ReadError | None]:
    """What each page came to: None where it was read."""

    async def one(made: PageFetcher, path: str) -> ReadError | None:
        try:
            await made.fetch(site.url(path))
        except ReadError as error:
            return error
        return None

    async def go() -> list[ReadError | None]:
        policy = site.policy(robots=True, **changes)
        made = PageFetcher(lambda: policy, resolve=site.names)
        done = [await one(made, path) for path in paths]
        await made.close()
        return done

    return asyncio.run(go())


def test_a_page_that_robots_txt_asks_not_to_read_is_not_read(site: Site) -> None:
    site.put("/a", "")
    site.put("/robots.txt", "User-agent: tabane\nDisallow: /secret", "text/plain")
    first, second = read(site, "/a", "/secret?x")
    assert first is None
    assert second is not None
    assert second.cause == "robots"
    assert "reader_robots" in str(second)
    assert site.paths == ["/robots.txt", "/a"], "it is asked for once, and the page not at all"
    assert site.asked[0].headers["user-agent"] == site.asked[1].headers["user-agent"]


async def test_a_person_who_asks_is_no_crawler(site: Site) -> None:
    site.put("/a", "")
    site.put("/robots.txt", "User-agent: *\nDisallow: /", "text/plain")
    policy = site.policy(robots=False)
    await PageFetcher(lambda: policy).fetch(site.url("/a"))
    assert site.paths == ["/a"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429, 451])
def test_where_there_is_none_everything_may_be_read(site: Site, status: int) -> None:
    site.put("/a", "")
    site.put("/robots.txt", "User-agent: *\nDisallow: /", "text/plain", status=status)
    assert read(site, "/a") == [None]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_where_the_server_has_a_fault_nothing_may_be_read(site: Site, status: int) -> None:
    site.put("/a", "")
    site.put("/robots.txt", "", status=status)
    first, second = read(site, "/a", "/a")
    assert first is not None
    assert second is not None
    assert first.cause == second.cause == "robots"
    assert str(status) in str(first)
    assert "/a" not in site.paths
    assert len(site.asked) in (1, 3), "the second read does not ask again so soon"


def test_one_that_hangs_is_bounded_and_means_no(site: Site) -> None:
    site.put("/a", "")
    site.wild("/robots.txt", hang)
    (error,) = read(site, "/a", robots_timeout=0.2)
    assert error is not None
    assert error.cause == "robots"
    assert "/a" not in site.paths


def test_one_that_leads_into_a_private_network_means_no(site: Site) -> None:
    site.put("/a", "")
    site.redirect("/robots.txt", "http://10.0.0.1/robots.txt")
    (error,) = read(site, "/a")
    assert error is not None
    assert error.cause == "robots"
    assert "10.0.0.1" in str(error)


def test_redirects_are_followed_and_those_without_end_mean_that_there_is_none(site: Site) -> None:
    site.put("/a", "")
    site.redirect("/robots.txt", "/r/5")
    for step in range(1, 6):
        site.redirect(f"/r/{step}", f"/r/{step - 1}")
    site.put("/r/0", "User-agent: *\nDisallow: /a", "text/plain")
    (error,) = read(site, "/a")
    assert error is not None
    assert error.cause == "robots"
    site.redirect("/r/0", "/r/5")
    assert read(site, "/a") == [None]


def test_of_one_that_is_too_large_the_beginning_counts(site: Site) -> None:
    site.put("/a", "")
    text = "User-agent: *\nDisallow: /a\n" + "#" * 600_000 + "\nAllow: /a\n"
    site.put("/robots.txt", text, "text/plain")
    (error,) = read(site, "/a")
    assert error is not None
    assert error.cause == "robots"
    site.wild("/robots.txt", endless)
    assert read(site, "/a") == [None]


def test_each_hop_and_each_host_has_its_own(site: Site) -> None:
    def robots(asked: Asked) -> Answer:
        return Answer(body=b"User-agent: *\nDisallow: " + (b"/b" if "other" in asked.host else b"/c"))

    site.ask("/robots.txt", robots)
    site.redirect("/a", site.url("/b", host="other.test"))
    (error,) = read(site, "/a")
    assert error is not None
    assert error.cause == "robots"
    assert "other.test" in str(error)
    assert site.paths == ["/robots.txt", "/a", "/robots.txt"]


def test_of_a_host_that_is_not_there_that_is_said_and_nothing_of_robots(site: Site) -> None:
    policy = site.policy(robots=True, allowed=("closed.test:9", f"127.0.0.1:{site.port}"))

    async def said(url: str) -> ReadError:
        fetcher = PageFetcher(lambda: policy, resolve=site.names, sleep=_no_sleep)
        try:
            with pytest.raises(ReadError) as caught:
                await fetcher.fetch(url)
            return caught.value
        finally:
            await fetcher.close()

    for url, cause in (("http://nowhere.invalid/a", "dns"), ("http://closed.test:9/", "connect")):
        error = asyncio.run(said(url))
        assert error.cause == cause, error
        assert "robots" not in str(error)
    site.redirect("/robots.txt", "http://nowhere.invalid/robots.txt")
    site.put("/a", "")
    error = asyncio.run(said(site.url("/a")))
    assert (error.cause, "nowhere.invalid" in str(error)) == ("robots", True)


async def _no_sleep(seconds: float) -> None:
    """Wait for nothing."""


async def test_many_reads_at_once_ask_for_it_once(site: Site) -> None:
    site.put("/a", "")
    site.put("/robots.txt", "User-agent: *\nDisallow: /b", "text/plain")
    policy = site.policy(robots=True)
    made = PageFetcher(lambda: policy)
    await asyncio.gather(*(made.fetch(site.url(f"/a?{n}")) for n in range(8)))
    await made.close()
    assert site.paths.count("/robots.txt") == 1


async def test_it_is_asked_for_again_after_an_hour_and_after_a_failure_sooner(site: Site) -> None:
    site.put("/a", "")
    site.put("/robots.txt", "", status=500)
    now = 0.0
    policy = site.policy(robots=True)
    made = PageFetcher(lambda: policy, clock=lambda: now)

    async def one() -> str | None:
        try:
            await made.fetch(site.url("/a"))
        except ReadError as error:
            return error.cause
        return None

    causes = [await one()]
    site.put("/robots.txt", "", "text/plain")
    for seconds in (59, 2, 3_599, 2):
        now += seconds
        causes.append(await one())
    await made.close()
    assert causes == ["robots", "robots", None, None, None]
    assert site.paths.count("/robots.txt") == 3


def test_many_programs_before_many_rules_take_time_in_proportion() -> None:
    def programs(size: int) -> object:
        names = ("".join(letters) for letters in product(ascii_lowercase, repeat=4))
        agents = "".join(f"User-agent:{name}\n" for name in islice(names, size))
        return rules(f"{agents}User-agent:*\n" + "Allow:/a\nDisallow:/b\n" * size, "Tabane")

    assert_in_proportion(programs, 1_000)


def test_a_rule_holds_for_each_program_that_is_named_before_it() -> None:
    text = "User-agent: a\nUser-agent: Tabane\nUser-agent: b\nDisallow: /x\n\nUser-agent: c\nDisallow: /\n"
    found = rules(text, "Tabane")
    assert (found.allow("/x"), found.allow("/y")) == (False, True)


@pytest.mark.parametrize("piece", ["*a", "*aaaab", "*b{n}", "a*", "%", "é", "***b{n}"])
def test_rules_made_to_take_for_ever_do_not(piece: str) -> None:
    def allowed(size: int) -> object:
        lines = "".join(f"Disallow:/{piece.format(n=n) * 20}\n" for n in range(size))
        return rules(f"User-agent:*\n{lines}", "Tabane").allow("/" + "a" * 7_000)

    assert_in_proportion(allowed, 500)
