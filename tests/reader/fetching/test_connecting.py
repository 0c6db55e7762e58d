"""Names, addresses, certificates and proxies: what is connected to is what was judged."""

from __future__ import annotations

import asyncio
import datetime
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ReadError
from tabane.net.addresses import first_connection
from tabane.reader.fetching import PageFetcher, Policy, Resolver
from tabane.reader.fetching.interface import FetchedResource, SystemResolver
from tabane.reader.fetching.network import GuardedNetworkBackend, source
from tabane.reader.fetching.responses import TransientFetchError
from tabane.reader.guard import Address, Guard, address_of, fault
from tests.harness.patience import LONG
from tests.reader.site import Site, running


def fetched(policy: Policy, url: str, resolve: Resolver | None = None) -> FetchedResource:
    async def go() -> FetchedResource:
        made = PageFetcher(lambda: policy, resolve=resolve)
        try:
            return await made.fetch(url)
        finally:
            await made.close()

    return asyncio.run(go())


def failed(policy: Policy, url: str, resolve: Resolver | None = None) -> ReadError:
    with pytest.raises(ReadError) as caught:
        fetched(policy, url, resolve)
    return caught.value


class Answers:
    """A resolver that says one thing after the other, and the last again and again."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.left, self.asked = list(answers), list[str]()

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Wires(httpcore2.AsyncNetworkBackend):
    """Connects to nothing, and writes down where to. ``dead`` addresses refuse, ``deaf`` ones hang."""

    def __init__(self, dead: Sequence[str] = (), deaf: Sequence[str] = ()) -> None:
        self.dead, self.deaf, self.tried = dead, deaf, list[str]()

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        self.tried.append(host)
        if host in self.dead:
            raise httpcore2.ConnectError(OSError(111, "Connection refused"))
        if host in self.deaf:
            await asyncio.Event().wait()
        return httpcore2.AsyncMockStream([])


def nowhere(address: Address, port: int) -> Address | None:
    return None


def connected(guard: Guard, host: str, port: int, answer: Sequence[str], wires: Wires) -> Answers:
    resolver = Answers(answer)
    asyncio.run(GuardedNetworkBackend(guard, resolver, nowhere, wires).connect_tcp(host, port, timeout=5))
    return resolver


ODD = st.sampled_from(["127.0.0.1", "10.1.2.3", "::1", "fe80::1%eth0", "::ffff:192.168.0.1", "no address",
                       "8.8.8.8",                       "169.254.169.254", "2606:4700::1"])  # fmt: skip


@given(st.lists(st.one_of(st.ip_addresses().map(str), ODD), max_size=5), st.booleans())
def test_whatever_is_let_through_is_connected_to_where_it_was_judged(found: list[str], allowed: bool) -> None:
    guard = Guard(["10.0.0.0/8:443", "127.0.0.1:80"] if allowed else [])
    wires = Wires()
    try:
        resolver = connected(guard, "docs.example", 443, found, wires)
    except (ReadError, TransientFetchError):
        assert not wires.tried
        return
    assert resolver.asked == ["docs.example"], "one lookup: a second might say something else"
    (tried,) = wires.tried
    address = address_of(tried)
    assert address is not None
    assert address in [address_of(text) for text in found]
    inner = (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
    assert fault(address) is None or (allowed and str(inner).startswith("10."))


# Rebinding


def test_a_name_that_changes_its_address_after_it_was_judged_gets_nowhere(site: Site) -> None:
    site.put("/a", "here")
    resolver = Answers(["127.0.0.1"], ["10.0.0.1"])
    assert fetched(site.policy(), site.url("/a", host="docs.test"), resolver).body == b"here"
    assert resolver.asked == ["docs.test"]


def test_a_name_that_leads_into_a_private_network_is_refused(site: Site) -> None:
    for answer in (["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["::ffff:10.0.0.1"], ["fe80::1%eth0"]):
        error = failed(site.policy(), site.url("/a", host="docs.test"), Answers(answer))
        assert error.cause == "refused"
    assert site.asked == []


def test_a_redirect_is_looked_up_and_judged_anew(site: Site) -> None:
    site.redirect("/a", site.url("/b", host="b.test"))
    resolver = Answers(["127.0.0.1"], ["192.168.0.1"])
    assert failed(site.policy(), site.url("/a", host="a.test"), resolver).cause == "refused"
    assert resolver.asked == ["a.test", "b.test"]


def test_loopback_is_refused_by_default(site: Site) -> None:
    policy = site.policy(allowed=(), ports=(site.port,))
    assert failed(policy, site.url("/")).cause == "refused"
    assert failed(policy, site.url("/", host="docs.test"), Answers(["127.0.0.1"])).cause == "refused"
    assert site.asked == []


# Names


@pytest.mark.parametrize(("fault", "times"), [
    (socket.gaierror(socket.EAI_NONAME, "?"), 1), (socket.gaierror(socket.EAI_AGAIN, "?"), 3),
    (OSError("?"), 1),    (UnicodeError("?"), 1),
])  # fmt: skip
def test_a_name_that_is_not_found_is_told(site: Site, fault: Exception, times: int) -> None:
    resolver = Answers(fault)
    error = failed(site.policy(), "https://nowhere.example/", resolver)
    assert error.cause == "dns"
    assert "nowhere.example" in str(error)
    assert len(resolver.asked) == times


def test_a_name_without_addresses_is_not_found(site: Site) -> None:
    assert failed(site.policy(), "https://nowhere.example/", Answers([])).cause == "dns"


def test_a_lookup_that_hangs_is_bounded(site: Site) -> None:
    async def hanging(_: str) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    assert failed(site.policy(connect_timeout=0.1), "https://slow.example/", hanging).cause == "timeout"


async def test_the_systems_resolver_knows_this_computer_and_not_everything() -> None:
    names = SystemResolver()
    assert {"127.0.0.1", "::1"} & set(await names("localhost"))
    with pytest.raises(OSError):
        await names("nowhere.invalid")


# Several addresses

PUBLIC = ["8.8.8.8", "8.8.4.4", "2606:4700::1", "2606:4700::2"]


def test_families_take_turns_and_the_first_that_answers_wins() -> None:
    wires = Wires(dead=["8.8.8.8", "2606:4700::1"])
    connected(Guard(), "docs.example", 443, PUBLIC, wires)
    assert wires.tried == ["8.8.8.8", "2606:4700::1", "8.8.4.4"]


def test_an_address_that_hangs_does_not_keep_the_next_waiting() -> None:
    wires = Wires(deaf=["8.8.8.8"])
    connected(Guard(), "docs.example", 443, PUBLIC, wires)
    assert wires.tried == ["8.8.8.8", "2606:4700::1"]


def test_where_nobody_answers_the_last_fault_is_told() -> None:
    with pytest.raises(TransientFetchError) as caught:
        connected(Guard(), "docs.example", 443, PUBLIC, Wires(dead=PUBLIC))
    assert caught.value.error.cause == "connect"
    assert "docs.example:443 cannot be reached: Connection refused" in str(caught.value.error)


async def test_a_connection_that_comes_too_late_is_closed() -> None:
    closed: list[str] = []
    stuck = asyncio.Event()

    async def late() -> str:
        try:
            await stuck.wait()
        except asyncio.CancelledError:
            return "late"
        return "?"

    async def quick() -> str:
        return "quick"

    async def close(made: str) -> None:
        closed.append(made)

    assert await first_connection([late, quick], close, after=0.01) == "quick"
    assert closed == ["late"]


async def test_a_connection_that_nobody_takes_any_more_is_closed() -> None:
    closed: list[str] = []
    ending = asyncio.Event()

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
            return "never"
        finally:
            ending.set()
            await asyncio.Event().wait()

    async def quick() -> str:
        return "quick"

    async def close(made: str) -> None:
        closed.append(made)

    task = asyncio.create_task(first_connection([slow, quick], close, after=0.01))
    await ending.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["quick"]


def test_a_port_where_nobody_listens_is_told_after_the_retries(site: Site) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # it is held, so that no other program listens there
        error = failed(site.policy(allowed=("127.0.0.1",)), f"http://127.0.0.1:{port}/")
    assert error.cause == "connect"
    assert "refused" in str(error)


def test_this_computers_own_addresses_are_no_public_hosts() -> None:
    own = IPv4Address("93.184.216.34")
    guarded = GuardedNetworkBackend(Guard(), Answers([str(own)]), lambda *_: own, wires := Wires())
    with pytest.raises(ReadError, match="own network"):
        asyncio.run(guarded.connect_tcp("me.example", 443, timeout=5))
    assert wires.tried == []
    assert source(IPv4Address("127.0.0.1"), 80) == IPv4Address("127.0.0.1")


# Certificates

Ca = Any


def _expired(ca: Ca) -> Any:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    return ca.issue_cert("localhost", not_before=past, not_after=past + datetime.timedelta(days=1))


def _early(ca: Ca) -> Any:
    return ca.issue_cert("localhost", not_before=datetime.datetime(2500, 1, 1, tzinfo=datetime.UTC),
                         not_after=datetime.datetime(2501, 1, 1, tzinfo=datetime.UTC))  # fmt: skip


@pytest.mark.parametrize(("certificate", "said"), [
    (_expired, "has expired"), (_early, "not valid yet"),
    (lambda ca: ca.issue_cert("evil.test"), "is for another host"),
])  # fmt: skip
def test_what_is_wrong_with_a_certificate_is_told(certificate: Any, said: str) -> None:
    with running(certificate) as site:
        site.put("/", "")
        error = failed(site.policy(), site.secure("/"), site.names)
        assert error.cause == "tls"
        assert said in str(error)
        assert site.asked == []


def test_an_authority_that_nobody_knows_is_told_with_what_to_do(site: Site) -> None:
    error = failed(site.policy(ca=None), site.secure("/"), site.names)
    assert error.cause == "tls"
    assert "reader_ca" in str(error)


def test_an_address_instead_of_a_name_has_its_own_certificate(site: Site) -> None:
    site.put("/", "here")
    assert fetched(site.policy(), site.secure("/", host="127.0.0.1")).body == b"here"


def test_tls_where_there_is_none_is_told(site: Site) -> None:
    error = failed(site.policy(), site.url("/").replace("http:", "https:"))
    assert error.cause == "tls"
    assert "http://" in str(error)


def test_certificates_that_cannot_be_read_are_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("none")
    for path in (tmp_path / "none.pem", tmp_path / "bad.pem"):
        error = failed(site.policy(ca=str(path)), site.secure("/"))
        assert error.cause == "tls"
        assert str(path) in str(error)


# Proxies


@contextmanager
def proxy(site: Site, seen: list[str], status: int = 200) -> Iterator[str]:
    """An HTTP proxy that leads to the site whatever it is asked for."""
    loop, up, down = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    where: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def led(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head.decode().partition("\r\n")[0])
        tunnel = head.startswith(b"CONNECT")
        if status != 200:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
            return writer.close()
        far = await asyncio.open_connection("127.0.0.1", site.secure_port if tunnel else site.port)
        if tunnel:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            far[1].write(re.sub(rb"http://[^/]+", b"", head, count=1))
        await asyncio.gather(pump(reader, far[1]), pump(far[0], writer), return_exceptions=True)
        return None

    async def serve() -> None:
        async with await asyncio.start_server(led, "127.0.0.1", 0) as server:
            where.append(server.sockets[0].getsockname()[1])
            up.set()
            await down.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert up.wait(LONG)
    try:
        yield f"http://me:secret@127.0.0.1:{where[0]}"
    finally:
        loop.call_soon_threadsafe(down.set)
        thread.join(LONG)


def test_a_proxy_of_the_settings_is_used_and_names_are_left_to_it(site: Site) -> None:
    site.put("/a", "here")
    seen: list[str] = []
    resolver = Answers(OSError("no name is looked up here"))
    with proxy(site, seen) as url:
        policy = site.policy(proxy=url)
        assert fetched(policy, "http://docs.test/a", resolver).body == b"here"
        assert fetched(policy, "https://docs.test/a", resolver).body == b"here"
    assert seen == ["GET http://docs.test:80/a HTTP/1.1", "CONNECT docs.test:443 HTTP/1.1"]
    assert resolver.asked == []


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://0x7f.1/", "http://localhost/", "http://wiki.lan/",
                                 "http://docs.test:22/"])  # fmt: skip
def test_a_proxy_is_no_way_to_what_can_be_judged_without_looking_up(site: Site, url: str) -> None:
    seen: list[str] = []
    with proxy(site, seen) as way:
        assert failed(site.policy(proxy=way), url).cause == "refused"
        inside = (
            f"http://wiki.lan:{site.port}/"  # a port at which an address is allowed, which is not seen here
        )
        assert failed(site.policy(proxy=way), inside).cause == "refused"
    assert seen == []


@pytest.mark.parametrize("to", ["http://10.0.0.1/", "http://nas.lan/", "http://docs.test:22/"])
def test_redirects_are_judged_before_a_proxy_hears_of_them(site: Site, to: str) -> None:
    site.redirect("/a", to)
    seen: list[str] = []
    with proxy(site, seen) as way:
        assert failed(site.policy(proxy=way), "http://docs.test/a").cause == "refused"
    assert seen == ["GET http://docs.test:80/a HTTP/1.1"]


def test_a_proxy_that_refuses_is_told(site: Site) -> None:
    with proxy(site, [], status=407) as url:
        error = failed(site.policy(proxy=url), "https://docs.test/")
    assert error.cause == "connect"
    assert "reader_proxy" in str(error)
    assert "secret" not in str(error)


def test_the_environments_proxies_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.put("/a", "here")
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    assert fetched(site.policy(), site.url("/a")).body == b"here"


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "127.0.0.1:8080", "http://", "http://x:port"])
def test_a_proxy_that_is_none_is_told(site: Site, url: str) -> None:
    error = failed(site.policy(proxy=url), "https://docs.test/")
    assert error.cause == "connect"
    assert "reader_proxy" in str(error)


def test_certificates_are_checked_at_all() -> None:
    from tabane.reader.fetching.network import trusted

    context = trusted(None)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
