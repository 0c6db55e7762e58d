"""The rules by which imported cookies are sent, beside those of RFC 6265 in another form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.cookies import CookieJar, ImportedCookie
from tabane.reader.guard import target

LABELS = st.sampled_from(["a", "b", "www", "evil"])
HOSTS = st.lists(LABELS, min_size=0, max_size=3).map(lambda labels: ".".join([*labels, "example", "com"]))
PATHS = st.lists(st.sampled_from(["a", "ab", "", "b"]), max_size=3).map(lambda parts: "/" + "/".join(parts))


def path_matches(cookie: str, path: str) -> bool:
    """RFC 6265, 5.1.4, by its words."""
    if cookie == path:
        return True
    return path.startswith(cookie) and (cookie[-1] == "/" or path[len(cookie) :][:1] == "/")


@given(HOSTS, HOSTS, HOSTS, st.booleans(), PATHS, PATHS, st.integers(0, 3), st.sampled_from([0, 1, 2, None]))
def test_a_cookie_is_sent_only_where_every_rule_allows_it(
    imported: str, domain: str, host: str, only: bool, path: str, asked: str, now: int, expires: int | None
) -> None:
    cookie = ImportedCookie("n", "v", domain, path, only, expires)
    at = target(f"https://{host}{asked}?query=/x")
    sent = CookieJar(imported, 443, (cookie,)).header(at, now) is not None
    plain = at.path.partition("?")[0]
    of_host = host == domain or (not only and host.endswith("." + domain))
    in_scope = host == imported or host.endswith("." + imported)
    assert sent == (of_host and in_scope and path_matches(path, plain) and (expires is None or expires > now))


@given(HOSTS, st.sampled_from(["http://{}/", "https://{}:8443/", "http://{}:443/", "https://{}.evil.org/",
                               "https://evil{}/"]))  # fmt: skip
def test_no_other_scheme_port_or_lookalike_gets_a_cookie(host: str, form: str) -> None:
    jar = CookieJar(host, 443, (ImportedCookie("n", "v", host, host_only=False),))
    assert jar.header(target(f"https://{host}/"), 0) == "n=v"
    assert jar.header(target(form.format(host)), 0) is None


def test_an_address_is_below_nothing() -> None:
    jar = CookieJar("0.0.1", 443, (ImportedCookie("n", "v", "0.0.1", host_only=False),))
    assert jar.header(target("https://10.0.0.1/"), 0) is None


def test_longer_paths_come_first_and_expired_cookies_not_at_all() -> None:
    cookies = (
        ImportedCookie("a", "1", "a.org"), ImportedCookie("b", "2", "a.org", "/app"),
        ImportedCookie("c", "3", "a.org", expires=5.0),
    )  # fmt: skip
    jar = CookieJar("a.org", 443, cookies)
    assert jar.header(target("https://a.org/app/x"), 4) == "b=2; a=1; c=3"
    assert jar.header(target("https://a.org/app/x"), 5) == "b=2; a=1"
    assert jar.header(target("https://a.org/other"), 5) == "a=1"
    assert (jar.first_expiry(4), jar.first_expiry(5)) == (5.0, None)
