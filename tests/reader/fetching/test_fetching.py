"""Pages got from a real site on loopback, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tabane.errors import ConfigurationError, ReadError
from tabane.reader.fetching import PageFetcher
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.guard import target
from tests.reader.site import Answer, Site, drip, furnish, gzipped, hang


@asynccontextmanager
async def fetching(site: Site, **changes: Any) -> AsyncIterator[PageFetcher]:
    policy = site.policy(**changes)
    made = PageFetcher(lambda: policy, resolve=site.names)
    try:
        yield made
    finally:
        await made.close()


def fetched(site: Site, url: str, headers: dict[str, str] | None = None, **changes: Any) -> FetchedResource:
    accept = changes.pop("accept", None)

    async def go() -> FetchedResource:
        async with fetching(site, **changes) as made:
            return await made.fetch(url, headers=headers, accept=accept)

    return asyncio.run(go())


def failed(site: Site, url: str, headers: dict[str, str] | None = None, **changes: Any) -> ReadError:
    with pytest.raises(ReadError) as caught:
        fetched(site, url, headers, **changes)
    return caught.value


# Answers


def test_a_page_comes_whole_with_what_its_headers_say(site: Site) -> None:
    site.put("/a", "<p>猫</p>", 'Text/HTML; Charset="UTF-8"', headers={"ETag": '"1"', "Set-Cookie": "a=b"})
    assert fetched(site, site.url("/a#part")) == FetchedResource(
        url=site.url("/a"),
        status=200,
        headers={"content-type": 'Text/HTML; Charset="UTF-8"', "etag": '"1"'},
        body="<p>猫</p>".encode(),
        media_type="text/html",
        charset="utf-8",
    )


async def test_it_says_who_it_is_and_what_it_takes_and_has_no_cookies(site: Site) -> None:
    site.put("/a", "", headers={"Set-Cookie": "seen=1"})
    async with fetching(site) as made:
        await made.fetch(site.url("/a"))
        await made.fetch(site.url("/a"), accept="text/markdown", headers={"X-Key": " 1\r\n"})
    first, second = site.asked
    assert first.headers["user-agent"].startswith("Tabane/")
    assert "text/html" in first.headers["accept"]
    assert first.headers["accept-encoding"].startswith("gzip, deflate, br")
    assert (second.headers["accept"], second.headers["x-key"]) == ("text/markdown", "1")
    assert "cookie" not in second.headers


def test_headers_that_are_not_a_callers_to_set_are_left_out(site: Site) -> None:
    site.put("/a", "")
    fetched(
        site, site.url("/a"), {"Host": "evil.test", "Cookie": "a=b", "User-Agent": "Mozilla", "Accept": "a/b"}
    )
    (asked,) = site.asked
    assert asked.host == f"127.0.0.1:{site.port}"
    assert "cookie" not in asked.headers
    assert asked.headers["user-agent"].startswith("Tabane/")
    assert asked.headers["accept"] == "a/b"


def test_names_reach_the_site_with_their_own_host_header(site: Site) -> None:
    site.put("/a", "here")
    page = fetched(site, site.url("/a", host="docs.test"))
    assert (page.body, page.url) == (b"here", site.url("/a", host="docs.test"))
    assert site.asked[0].host == f"docs.test:{site.port}"


def test_tls_speaks_http_2_with_the_name_of_the_host(site: Site) -> None:
    site.put("/a", "x" * 300_000)
    page = fetched(site, site.secure("/a", host="docs.test"))
    assert len(page.body) == 300_000
    assert (site.asked[0].http, site.asked[0].secure) == ("2", True)
    assert site.asked[0].host == f"docs.test:{site.secure_port}"


def test_what_was_kept_is_asked_for_again_and_may_still_be_good(site: Site) -> None:
    furnish(site)
    first = fetched(site, site.url("/etag"))
    for headers in (
        {"If-None-Match": first.headers["etag"]},
        {"If-Modified-Since": first.headers["last-modified"]},
    ):
        again = fetched(site, site.url("/etag"), headers)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", '"one"')


@pytest.mark.parametrize("status", [200, 203, 204, 206])
def test_every_status_of_success_is_an_answer(site: Site, status: int) -> None:
    site.put("/a", "" if status == 204 else "body", status=status)
    assert fetched(site, site.url("/a")).status == status


@pytest.mark.parametrize(("status", "cause"), [
    (300, "status"), (400, "status"), (401, "status"), (403, "status"), (404, "status"), (410, "status"),
    (418, "status"), (429, "rate"), (500, "status"), (501, "status"), (502, "status"),
    (503, "rate"), (504, "status"),
])  # fmt: skip
@pytest.mark.parametrize("secure", [False, True])
def test_other_statuses_are_errors(site: Site, status: int, cause: str, secure: bool) -> None:
    site.put("/a", "<p>No.</p>" * 100, status=status)
    error = failed(site, site.secure("/a") if secure else site.url("/a"))
    assert (error.cause, error.status) == (cause, status)
    assert str(status) in str(error)


# Redirects


def test_redirects_are_followed_to_the_end_by_get(site: Site) -> None:
    furnish(site)
    assert fetched(site, site.url("/chain/10")).url == site.url("/chain/0")
    assert {asked.method for asked in site.asked} == {"GET"}
    assert len(site.asked) == 11


def test_too_many_redirects_end(site: Site) -> None:
    furnish(site)
    error = failed(site, site.url("/chain/11"))
    assert error.cause == "redirect"
    assert "more than 10 times" in str(error)


def test_a_circle_is_named(site: Site) -> None:
    furnish(site)
    error = failed(site, site.url("/loop"))
    assert error.cause == "redirect"
    assert f"{site.url('/loop')} → {site.url('/loop/back')} → {site.url('/loop')}" in str(error)
    assert site.paths == ["/loop", "/loop/back"]


def test_a_redirect_without_a_place_is_an_error(site: Site) -> None:
    furnish(site)
    assert failed(site, site.url("/nowhere")).cause == "redirect"


@pytest.mark.parametrize(("to", "cause"), [
    ("http://169.254.169.254/latest/", "refused"), ("http://127.1:1/", "refused"), ("http://0/", "refused"),
    ("http://[::1]/", "refused"), ("//2130706433/", "refused"), ("http://localhost/", "refused"),
    ("http://8.8.8.8:22/", "refused"), ("file:///etc/passwd", "scheme"), ("http://a:b@docs.test/", "url"),
    ("https://nowhere.example/", "dns"),
])  # fmt: skip
def test_each_hop_is_judged_anew(site: Site, to: str, cause: str) -> None:
    site.redirect("/a", to)
    assert failed(site, site.url("/a")).cause == cause
    assert site.paths == ["/a"]


def test_headers_go_to_the_host_they_were_given_for_and_no_further(site: Site) -> None:
    site.redirect("/a", "/b")
    site.redirect("/b", site.url("/c", host="other.test"))
    site.redirect("/c", site.secure("/d"))
    site.put("/d", "")
    fetched(site, site.url("/a"), {"Authorization": "Bearer secret", "If-None-Match": '"1"'})
    secrets = [asked.headers.get("authorization") for asked in site.asked]
    assert secrets == ["Bearer secret", "Bearer secret", None, None]
    assert "if-none-match" not in site.asked[-1].headers


def test_a_redirect_from_https_to_http_takes_no_headers_along(site: Site) -> None:
    site.redirect("/a", site.url("/b", host="localhost"))
    site.put("/b", "")
    fetched(site, site.secure("/a"), {"Authorization": "Bearer secret"})
    assert [asked.headers.get("authorization") for asked in site.asked] == ["Bearer secret", None]


@pytest.mark.parametrize(("begin", "at", "same"), [
    ("http://a.com/", "http://a.com/b", True), ("http://a.com/", "https://a.com/", True),
    ("https://a.com/", "http://a.com/", False), ("http://a.com/", "https://b.com/", False),
    ("http://a.com/", "https://a.com:8443/", False), ("http://a.com:8080/", "https://a.com/", False),
    ("https://a.com/", "https://www.a.com/", False),
])  # fmt: skip
def test_the_same_server_may_become_safer_and_nothing_else(begin: str, at: str, same: bool) -> None:
    from tabane.reader.fetching.redirects import same_server

    assert same_server(target(begin), target(at)) is same


def test_connections_are_used_again_also_after_a_redirect_and_a_refusal(site: Site) -> None:
    furnish(site)

    async def go(url: Callable[[str], str]) -> int:
        before = site.connections
        async with fetching(site) as made:
            await made.fetch(url("/chain/3"))
            with pytest.raises(ReadError):
                await made.fetch(url("/nothing"))
            await made.fetch(url("/"))
        return site.connections - before

    assert asyncio.run(go(site.url)) == 1
    assert asyncio.run(go(site.secure)) == 1


# Limits


@pytest.mark.parametrize("path", ["/large", "/endless", "/bomb.gz", "/bomb.br"])
def test_a_body_that_is_too_large_is_stopped(site: Site, path: str) -> None:
    furnish(site)
    error = failed(site, site.url(path), max_bytes=1_000_000)
    assert error.cause == "large"
    assert "1 MB" in str(error)


@pytest.mark.parametrize("path", ["/bomb.gz", "/bomb.br", "/heavy"])
async def test_over_http_2_a_body_that_is_stopped_leaves_others_alone(site: Site, path: str) -> None:
    furnish(site)
    site.put("/heavy", b"x" * 4_000_000)

    before = site.connections
    async with fetching(site, max_bytes=1_000_000) as made:
        for _ in range(3):
            with pytest.raises(ReadError) as caught:
                await made.fetch(site.secure(path))
            assert caught.value.cause == "large"
            assert (await made.fetch(site.secure("/"))).status == 200
    assert site.connections - before == 4, "what is left unread does not fill a connection that is used again"


def test_a_body_of_just_the_limit_is_read(site: Site) -> None:
    site.put("/plain", b"x" * 1000)
    site.put("/packed", gzip.compress(b"y" * 1000), headers={"Content-Encoding": "gzip"})
    for path in ("/plain", "/packed"):
        assert len(fetched(site, site.url(path), max_bytes=1000).body) == 1000
        assert failed(site, site.url(path), max_bytes=999).cause == "large"


@pytest.mark.heavy("large pages")
async def test_the_loop_runs_on_while_a_large_body_is_unpacked(site: Site) -> None:
    site.put("/", "")
    site.put("/bomb", gzipped(100 << 20), headers={"Content-Encoding": "gzip"})
    gc.collect()
    gc.disable()  # what other tests left takes long to look through, and is no work of the fetcher
    try:
        longest, begun = 0.0, time.thread_time()

        async def beat() -> None:
            nonlocal longest
            before = time.thread_time()
            while True:
                await asyncio.sleep(0)
                now = time.thread_time()
                before, longest = now, max(longest, now - before)

        async with fetching(site, max_bytes=200_000_000) as made:
            await made.fetch(site.url("/"))
            heart = asyncio.create_task(beat())
            assert len((await made.fetch(site.url("/bomb"))).body) == 100 << 20
            heart.cancel()
        whole = time.thread_time() - begun
    finally:
        gc.enable()
    assert longest < whole / 8, "much of the work was done at one go"


def test_bytes_that_unpack_to_nothing_are_counted_too(site: Site) -> None:
    flood = gzip.compress(b"") * 5_000
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(flood), flood)
    site.put("/flood", body, headers={"Content-Encoding": "gzip", "Transfer-Encoding": "chunked"})
    assert fetched(site, site.url("/flood")).body == b""
    assert failed(site, site.url("/flood"), max_bytes=50_000).cause == "large"


@pytest.mark.parametrize(("path", "limits", "said"), [
    ("/drip.pdf", {"timeout": 1}, "the page at"), ("/hang", {"timeout": 0.3}, "an answer of"),
    ("/hang", {"read_timeout": 0.2}, "an answer of"),
])  # fmt: skip
def test_what_takes_too_long_is_given_up(site: Site, path: str, limits: dict[str, Any], said: str) -> None:
    furnish(site)
    site.wild("/drip.pdf", partial(drip, media="application/pdf"))
    error = failed(site, site.url(path), **limits)
    assert error.cause == "timeout"
    assert said in str(error)


def test_a_text_that_comes_slowly_is_cut_off_with_a_warning(site: Site) -> None:
    furnish(site)
    answer = fetched(site, site.url("/drip"), timeout=1)
    assert set(answer.body) == {ord(".")}
    assert answer.partial
    assert "cut off after 1 s" in str(answer.warnings[0])


@pytest.mark.parametrize("path", ["/cut", "/slam", "/babble", "/endless-head"])
def test_an_answer_that_breaks_off_or_is_no_http_is_broken(site: Site, path: str) -> None:
    furnish(site)
    assert failed(site, site.url(path)).cause == "broken"


async def test_whoever_waits_may_be_cancelled(site: Site) -> None:
    furnish(site)
    asked = threading.Event()

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await hang(reader, writer)

    site.wild("/hang", hanging)
    async with fetching(site) as made:
        task = asyncio.create_task(made.fetch(site.url("/hang")))
        await asyncio.to_thread(asked.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await made.fetch(site.url("/"))).status == 200


# Unpacking

TEXT = "吾輩は猫である。" * 5000


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def packed(encoding: str, data: bytes) -> bytes:
    import brotli
    from backports import zstd

    return {  # type: ignore[no-any-return]
        "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "bare": bare,
        "br": brotli.compress, "zstd": zstd.compress,
        "members": lambda whole: gzip.compress(whole[:100]) + gzip.compress(b"") + gzip.compress(whole[100:]),
        "trailed": lambda whole: gzip.compress(whole) + b"\0" * 20,
    }[encoding](data)  # fmt: skip


NAMES = {"bare": "deflate", "members": "gzip", "trailed": "gzip"}


@pytest.mark.parametrize("how", ["gzip", "x-gzip", "deflate", "bare", "br", "zstd", "members", "trailed"])
@pytest.mark.parametrize("secure", [False, True])
def test_bodies_are_unpacked(site: Site, how: str, secure: bool) -> None:
    site.put("/a", packed(how, TEXT.encode()), headers={"Content-Encoding": NAMES.get(how, how)})
    page = fetched(site, site.secure("/a") if secure else site.url("/a"))
    assert page.body.decode() == TEXT
    assert "content-encoding" not in page.headers


@pytest.mark.parametrize("how", ["gzip", "deflate", "br", "zstd"])
def test_a_packed_body_that_ends_early_or_is_none_is_broken(site: Site, how: str) -> None:
    whole = packed(how, TEXT.encode())
    for body in (whole[:-5], whole[: len(whole) // 2], b"<p>This was never packed.</p>" * 9):
        site.put("/a", body, headers={"Content-Encoding": how})
        assert failed(site, site.url("/a")).cause == "broken"


def test_nothing_is_nothing_however_it_is_packed(site: Site) -> None:
    for how in ("gzip", "deflate", "br", "zstd", "identity", ""):
        site.put("/a", b"", headers={"Content-Encoding": how})
        assert fetched(site, site.url("/a")).body == b""


@pytest.mark.parametrize("how", ["compress", "gzip, br", "lzma"])
def test_an_encoding_that_nobody_asked_for_is_named(site: Site, how: str) -> None:
    site.put("/a", b"?", headers={"Content-Encoding": how})
    error = failed(site, site.url("/a"))
    assert error.cause == "broken"
    assert how in str(error)


def test_a_zstd_bomb_and_a_window_beyond_what_http_allows_are_stopped(site: Site) -> None:
    from backports import zstd

    site.put("/bomb", zstd.compress(bytes(50 << 20)), headers={"Content-Encoding": "zstd"})
    assert failed(site, site.url("/bomb"), max_bytes=1_000_000).cause == "large"
    wide: dict[int, int] = {
        zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0,
    }  # fmt: skip
    packer = zstd.ZstdCompressor(options=wide)
    site.put("/wide", packer.compress(bytes(1000)) + packer.flush(), headers={"Content-Encoding": "zstd"})
    assert failed(site, site.url("/wide")).cause == "broken"


# Retries


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_passing_failure_is_tried_again(site: Site, status: int) -> None:
    site.play("/a", Answer(status), Answer(status, headers={"Retry-After": "0"}), Answer(body=b"now"))
    assert fetched(site, site.url("/a")).body == b"now"


def test_it_is_not_tried_for_ever(site: Site) -> None:
    site.put("/a", "", status=503)
    failed(site, site.url("/a"), retries=2)
    assert len(site.asked) == 3


@pytest.mark.parametrize("status", [400, 404, 500, 501])
def test_a_failure_that_stays_is_not_tried_again(site: Site, status: int) -> None:
    site.put("/a", "", status=status)
    failed(site, site.url("/a"))
    assert len(site.asked) == 1


def test_a_long_wait_is_left_to_the_caller(site: Site) -> None:
    furnish(site)
    error = failed(site, site.url("/closed"))
    assert (error.cause, error.status, error.wait) == ("rate", 429, 3600.0)
    assert "3600 s" in str(error)
    assert len(site.asked) == 1


async def test_short_waits_are_waited_for(site: Site) -> None:
    site.play("/a", Answer(429, headers={"Retry-After": "3"}), Answer(503), Answer(body=b"now"))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    policy = site.policy(backoff=0.5)
    made = PageFetcher(lambda: policy, resolve=site.names, sleep=sleep)
    assert (await made.fetch(site.url("/a"))).body == b"now"
    assert slept == [3.0, 1.0]


async def test_a_date_and_a_spent_limit_say_how_long_to_wait_too(site: Site) -> None:
    policy = site.policy()
    made = PageFetcher(lambda: policy, resolve=site.names, wall=lambda: 1_700_000_000.0)
    for status, headers, wait in (
        (429, {"Retry-After": "Tue, 14 Nov 2023 23:13:20 GMT"}, 3600.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000900"}, 900.0),
    ):
        site.put("/a", "", status=status, headers=headers)
        with pytest.raises(ReadError) as caught:
            await made.fetch(site.url("/a"))
        assert (caught.value.cause, caught.value.wait) == ("rate", wait)
    await made.close()


def test_a_connection_that_died_meanwhile_is_made_anew(site: Site) -> None:
    """The server closes what was kept open, as servers do; nobody notices."""
    count = 0

    async def once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        if count > 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    site.wild("/a", once)
    assert fetched(site, site.url("/a")).body == b"ok"
    assert count == 2


# Politeness


async def test_no_more_than_two_ask_a_host_at_once(site: Site) -> None:
    most, now = 0, 0
    two = asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if now == 2:
            two.set()
        await two.wait()
        for _turn in range(200):  # time for a third, which must not come
            await asyncio.sleep(0)
        now -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    site.wild("/slow", slow)
    async with fetching(site) as made:
        await asyncio.gather(*(made.fetch(site.url(f"/slow?{n}")) for n in range(10)))
    assert most == 2


# Policies


async def test_a_policy_that_changes_holds_from_the_next_fetch_on(site: Site) -> None:
    site.put("/a", "")
    policy = site.policy()
    made = PageFetcher(lambda: policy, resolve=site.names)
    await made.fetch(site.url("/a"))
    policy = replace(policy, allowed=())
    with pytest.raises(ReadError) as caught:
        await made.fetch(site.url("/a"))
    assert caught.value.cause == "refused"
    policy = site.policy()
    await made.fetch(site.url("/a"))
    await made.close()


async def test_a_read_under_way_is_finished_under_the_policy_it_began_with(site: Site) -> None:
    entered, release = threading.Event(), threading.Event()

    async def halves(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        await writer.drain()
        entered.set()
        await asyncio.to_thread(release.wait, 20)
        writer.write(b", end")

    site.wild("/a", halves)
    site.put("/b", "")
    policy = site.policy()
    made = PageFetcher(lambda: policy, resolve=site.names)
    task = asyncio.create_task(made.fetch(site.url("/a")))
    await asyncio.to_thread(entered.wait, 20)
    policy = replace(policy, user_agent="Other/1")
    await made.fetch(site.url("/b"))
    release.set()
    page = await task
    await made.close()
    assert page.body == b"first, end"
    assert [asked.headers["user-agent"][:6] for asked in site.asked] == ["Tabane", "Other/"]


def test_what_is_allowed_but_cannot_be_read_is_an_error_of_the_settings(site: Site) -> None:
    with pytest.raises(ConfigurationError):
        fetched(site, site.url("/"), allowed=("http://x/",))


def test_importing_the_room_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tabane.reader.fetching as room; room.PageFetcher(room.Policy)\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules}"
        " & {'httpcore2', 'httpx2', 'anyio', 'h11', 'h2', 'brotli', 'idna', 'ssl'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['ssl']"), "asyncio imports ssl itself"
