"""Every spelling of a URL is parsed in one way."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.errors import ReadError
from tabane.reader.guard import joined, target

SAME = {
    "https://example.com/": ["https://example.com", "HTTPS://EXAMPLE.COM:443/", " https://example.com/ ",
                             "https://example.com./", "https:\\\\example.com\\", "https://exa\nmple.com",
                             "https://ｅｘａｍｐｌｅ。ｃｏｍ/", "https://ex%61mple.com/#part", "https://example.com/.",
                             "https://exam\u00adple.com/"],
    "http://example.com:8080/a?b=c": ["http://example.com:8080/a?b=c#d", "http://EXAMPLE.com:08080/x/../a?b=c"],
    "https://xn--r8jz45g.xn--zckzah/%E3%83%91?q=%E8%AA%9E": ["https://例え.テスト/パ?q=語",
                                                            "https://例え。テスト/%E3%83%91?q=%E8%AA%9E"],
    "https://xn--fa-hia.de/": ["https://faß.de/"],
    "https://xn--n3h.net/": ["https://☃.net"],
    "https://my_site.example.com/": ["https://my_site.example.com"],
    "http://example.com/@127.0.0.1/": ["http://example.com\\@127.0.0.1/"],
    "http://example.com/a%20b%zz/": ["http://example.com/a b%zz/"],
    "http://[2606:4700::1]:8080/": ["http://[2606:4700:0::0001]:8080"],
    "http://8.8.8.8/": ["http://134744072/", "http://0x08080808", "http://010.8.8.8", "http://8.8.2056/",
                        "http://8.0x80808", "http://８.8.8.8."],
}  # fmt: skip

NONE = [
    "", "example.com/a", "//example.com", "https:/example.com", "https:example.com", "https://", "https:///a",
    "https://?q", "https://user@example.com", "https://user:password@example.com/", "https://@example.com",
    "https://exa mple.com", "https://exam%20ple.com", "https://exam%00ple.com", "https://ex%2fample.com",
    "https://a..b", "https://-", "https://example.com:99999", "https://example.com:0",
    "https://example.com:８０", "https://example.com:80:80", "https://[::1", "https://[::1]x",
    "https://[fe80::1%25eth0]", "https://[127.0.0.1]", "https://[v1.x]", "https://1.2.3.4.5",
    "https://256.0.0.1", "https://4294967296", "https://1.2.3.08x.9", "https://example.com.08",
    "https://" + "a" * 64 + ".com", "https://" + "a." * 200, "https://example.com/" + "a" * 8000,
    "https://example.com/\ud800", "https://ex%ffample.com",
]  # fmt: skip


@pytest.mark.parametrize(("plain", "spelled"), [(plain, one) for plain, all_ in SAME.items() for one in all_])
def test_spellings_of_a_url_are_one(plain: str, spelled: str) -> None:
    assert target(spelled).url == plain


@pytest.mark.parametrize("url", NONE)
def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    with pytest.raises(ReadError) as caught:
        target(url)
    assert caught.value.cause == "url"


@pytest.mark.parametrize("url", ["ftp://example.com", "file:///etc/passwd", "javascript:alert(1)", "gopher://x",
                                 "data:text/html,x", "FILE:///c:/", "ws://example.com"])  # fmt: skip
def test_other_schemes_are_named(url: str) -> None:
    with pytest.raises(ReadError) as caught:
        target(url)
    assert caught.value.cause == "scheme"


@pytest.mark.parametrize(("location", "leads"), [
    ("/b", "https://example.com/b"), ("b?c", "https://example.com/x/b?c"), ("?c", "https://example.com/x/y?c"),
    ("//other.example/a", "https://other.example/a"), ("\\\\other.example\\a", "https://other.example/a"),
    ("http://other.example", "http://other.example/"), ("../../../a", "https://example.com/a"),
    ("  /space ", "https://example.com/space"), ("/日本", "https://example.com/%E6%97%A5%E6%9C%AC"),
    ("#part", "https://example.com/x/y"),
])  # fmt: skip
def test_redirects_are_joined_as_a_browser_does(location: str, leads: str) -> None:
    assert joined(target("https://example.com/x/y"), location).url == leads


@pytest.mark.parametrize("location", ["https://u:p@example.com/", "http://[", "//[::1", "javascript:1", "//"])
def test_a_redirect_to_what_is_no_url_is_refused(location: str) -> None:
    with pytest.raises(ReadError) as caught:
        joined(target("https://example.com/x/y"), location)
    assert caught.value.cause in ("url", "scheme")


@given(st.text(max_size=60))
@example("https://[::ffff:1.2.3.4]")
def test_any_text_is_a_url_or_no_url(text: str) -> None:
    for url in (text, "http://" + text, "https://example.com/" + text):
        with contextlib.suppress(ReadError):
            found = target(url)
            assert target(found.url) == found, "read again, it is the same"
            assert found.url.isascii()
            assert found.url.isprintable()
