"""Files of cookies: what is read of them, and that nothing gets into a header that must not."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.reader.cookies import (
    CookieFile,
    CookieJar,
    ImportedCookie,
    choose,
    domain_of,
    host_of,
    parse_cookies,
)
from tabane.reader.guard import target

HEAD = "# Netscape HTTP Cookie File\n"
NAMES = st.text("abcXYZ019_-.", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=0x20, exclude_characters=";\x7f\n\r\t", codec="utf-8"))
DOMAINS = st.sampled_from(
    ["example.com", "www.example.com", "a.b.example.co.jp", "xn--r8jz45g.jp", "10.0.0.1"]
)
PATHS = st.sampled_from(["/", "/app", "/app/", "/a/b c"])
COOKIES = st.builds(
    ImportedCookie, NAMES, VALUES, DOMAINS, PATHS, st.booleans(), st.none() | st.integers(1, 2**33).map(float)
)


def cookies_of(text: str) -> tuple[ImportedCookie, ...]:
    parsed = parse_cookies(text)
    assert parsed is not None
    return parsed.cookies


def as_line(cookie: ImportedCookie, dot: str = "") -> str:
    below, expires = str(not cookie.host_only).upper(), str(int(cookie.expires or 0))
    return "\t".join([dot + cookie.domain, below, cookie.path, "TRUE", expires, cookie.name, cookie.value])


def as_object(cookie: ImportedCookie) -> dict[str, object]:
    return {
        "name": cookie.name, "value": cookie.value, "domain": cookie.domain, "path": cookie.path,
        "hostOnly": cookie.host_only, "expirationDate": cookie.expires, "session": cookie.expires is None,
    }  # fmt: skip


@given(st.lists(COOKIES, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_what_is_written_is_read_back(cookies: list[ImportedCookie], end: str, headed: bool) -> None:
    lines = [as_line(cookie, "" if cookie.host_only else ".") for cookie in cookies]
    text = (HEAD if headed else "") + end.join(lines)
    assert parse_cookies(text) == CookieFile(tuple(cookies), 0)
    rows = [as_object(cookie) for cookie in cookies]
    for written in (json.dumps(rows), json.dumps({"url": "x", "cookies": rows}), "\ufeff" + json.dumps(rows)):
        assert parse_cookies(written) == CookieFile(tuple(cookies), 0)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
@example("a.org\tTRUE\t/\tTRUE\tnan\tn\tv")
@example("a.org\tTRUE\t/\tTRUE\tinf\tn\tv")
@example("a.org\tTRUE\t/\tTRUE\t1e400\tn\tv")
@example('[{"name": "\\ud800", "value": "", "domain": "a.org"}]')
@example('{"cookies": {}}')
@example("[{}]")
def test_any_text_is_read_or_is_no_file_of_cookies(text: str) -> None:
    parsed = parse_cookies(text)
    assert parsed is None or isinstance(parsed, CookieFile)


@given(st.text(), st.text(), st.sampled_from(["lines", "json"]))
@example("a", "x\r\nHost: evil", "json")
@example("a\nb", "1", "json")
@example("a", "1; admin=1", "lines")
@example("a", "\ud800", "json")
def test_no_cookie_breaks_out_of_its_header(name: str, value: str, kind: str) -> None:
    cookie = ImportedCookie(name, value, "a.org")
    text = as_line(cookie) if kind == "lines" else json.dumps([as_object(cookie)])
    for read in (parse_cookies(text) or CookieFile()).cookies:
        header = CookieJar("a.org", 443, (read,)).header(target("https://a.org/"), 0)
        assert header == f"{read.name}={read.value}"
        assert not set(header) & {";", "\x7f", *map(chr, range(0x20))}
        header.encode()
        assert "=" not in read.name
        assert read.name


def test_details_of_the_netscape_format() -> None:
    found = parse_cookies(
        HEAD + "# a comment\n#HttpOnly_.A.Example.com\tTRUE\t/\tFALSE\t1900000000.5\th\tv=1\n"
        "b.org\tFALSE\tx\tTRUE\t-1\tempty\nc.org\tMAYBE\t/\tTRUE\t0\tn\tv\nd.org\tTRUE\t/\tTRUE\tsoon\tn\tv\n"
    )
    assert found == CookieFile(
        (
            ImportedCookie("h", "v=1", "a.example.com", "/", False, 1_900_000_000.5),
            ImportedCookie("empty", "", "b.org", "/", True, None),
        ),
        2,
    )
    assert parse_cookies(HEAD) == CookieFile()
    assert parse_cookies("a letter\nof two lines") is None


def test_a_leading_dot_decides_where_json_does_not_say_it() -> None:
    rows = [{"name": "n", "value": "v", "domain": domain, "expires": -1} for domain in (".a.org", "a.org")]
    assert [(cookie.host_only, cookie.expires) for cookie in cookies_of(json.dumps(rows))] == [
        (False, None), (True, None),
    ]  # fmt: skip


def test_no_value_is_shown_by_what_prints_an_object() -> None:
    cookies = cookies_of("a.org\tTRUE\t/\tTRUE\t0\tn\tsecret")
    shown = (
        cookies,
        choose(cookies, host_of("a.org"), 0),
        CookieJar("a.org", 443, cookies),
        CookieFile(cookies),
    )
    assert "secret" not in repr(shown)


def test_those_of_the_host_are_chosen_and_the_last_of_a_name_wins() -> None:
    text = "\n".join(
        f"{domain}\t{below}\t/\tTRUE\t{expires}\t{name}\t{value}"
        for domain, below, expires, name, value in (
            ("example.com", "TRUE", 0, "a", "old"), (".example.com", "TRUE", 0, "a", "new"),
            ("example.com", "FALSE", 0, "b", "1"), ("www.example.com", "FALSE", 0, "c", "1"),
            ("example.com", "TRUE", 10, "d", "1"),
        )
    )  # fmt: skip
    for host, names in (("example.com", "ab"), ("www.example.com", "ac"), ("com", "")):
        choice = choose(cookies_of(text), host_of(host), 20)
        assert "".join(cookie.name for cookie in choice.taken) == names
        assert all(cookie.value != "old" for cookie in choice.taken)
    assert choose(cookies_of(text), host_of("example.com"), 20).expired == 1
    assert choose(cookies_of(text), host_of("other.org"), 20).domains[0] == "example.com"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("example.com", "example.com", 443), ("https://Example.com/a?b", "example.com", 443),
        ("wiki.lan:8443", "wiki.lan", 8443), ("[::1]:444", "::1", 444), ("例え.jp", "xn--r8jz45g.jp", 443),
    ],
)  # fmt: skip
def test_hosts_are_named_as_people_do(text: str, host: str, port: int) -> None:
    found = host_of(text)
    assert (found.host, found.port, found.scheme) == (host, port, "https")


@given(st.text(max_size=30))
@example("a.org/b")
@example("a.org#")
@example("u@a.org")
@example("::1")
def test_a_domain_is_a_normalized_host_or_none(text: str) -> None:
    found = domain_of(text)
    assert found is None or domain_of(found) == found
