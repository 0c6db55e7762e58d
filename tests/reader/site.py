"""A web site on loopback that does as a test tells it: pages, redirects, refusals, and everything evil.

How it is used (fixture ``site`` of tests/reader/conftest.py, or ``with running() as site``):

    site.put("/a", "<h1>Hi</h1>")                      a page; what it is asked stands in ``site.asked``
    site.put("/a.md", "# Hi", "text/markdown")         other types; bytes are served as they are
    site.redirect("/old", "/a", status=301)
    site.play("/busy", Answer(429, headers={"Retry-After": "1"}), Answer(body=b"now"))   one after the other
    site.ask("/etag", lambda asked: …)                 an Answer made of what was asked
    site.wild("/drip", drip)                           what HTTP does not foresee, written to the socket

    site.url("/a")          http://127.0.0.1:PORT/a         site.url("/a", host="docs.test") by a name
    site.secure("/a")       https://localhost:PORT/a: HTTP/2 or 1.1, signed by ``site.authority`` (PEM)
    site.allowed            what the reader's settings must allow, so that it is reached at all
    site.policy(**changes)  a Policy that reaches it, without waiting between requests
    site.names              a resolver for Fetching: every name under .test leads to the site

Both ports serve the same pages; those of ``secure`` need no other preparation. ``furnish(site)`` puts up a
standard set, whose paths its docstring lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.reader.fetching import Policy
from tests.harness.patience import LONG

if TYPE_CHECKING:
    import trustme

HTML = "text/html; charset=utf-8"
HOSTS = ("localhost", "127.0.0.1", "docs.test", "*.docs.test", "other.test")


@dataclass(frozen=True)
class Asked:
    """One request as it came; names of ``headers`` are lower case, ``http`` is "1.1" or "2"."""

    method: str
    target: str
    headers: dict[str, str]
    http: str
    secure: bool

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def host(self) -> str:
        return self.headers.get("host", "")


@dataclass(frozen=True)
class Answer:
    """One response. Content-Length is added where no header says how long it is."""

    status: int = 200
    body: bytes = b""
    media_type: str | None = HTML
    headers: dict[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """Return the headers, with a Set-Cookie for each cookie."""
        return [*self.head().items(), *(("Set-Cookie", cookie) for cookie in self.cookies)]

    def head(self) -> dict[str, str]:
        said = {"Content-Type": self.media_type} if self.media_type else {}
        said |= self.headers
        if self.status not in (204, 304) and "Transfer-Encoding" not in said:
            said.setdefault("Content-Length", str(len(self.body)))
        return said


Answering = Callable[[Asked], Answer]
Certifying = Callable[["trustme.CA"], "trustme.LeafCert"]
Wild = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Site:
    """The site, running on two ports of 127.0.0.1. ``asked`` holds every request, oldest first."""

    def __init__(self, port: int, secure_port: int, authority: Path) -> None:
        self.port, self.secure_port, self.authority = port, secure_port, authority
        self.asked: list[Asked] = []
        self.connections = 0
        self._pages: dict[str, Answering] = {}
        self._wild: dict[str, Wild] = {}

    # What stands where

    def put(
        self, path: str, body: str | bytes, media_type: str | None = HTML, *, status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """A page. ``path`` may have a query: it is looked for with its query first, then without."""
        data = body.encode() if isinstance(body, str) else body
        self.ask(path, lambda _: Answer(status, data, media_type, headers or {}))

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.ask(path, lambda _: Answer(status, headers={"Location": to}))

    def play(self, path: str, *answers: Answer) -> None:
        """One answer after the other; the last again and again."""
        left = list(answers)
        self.ask(path, lambda _: left.pop(0) if len(left) > 1 else left[0])

    def ask(self, path: str, answering: Answering) -> None:
        self._wild.pop(path, None)
        self._pages[path] = answering

    def wild(self, path: str, writing: Wild) -> None:
        """Answered by hand, over HTTP/1.1: ``writing`` gets the socket after the head of the request."""
        self._wild[path] = writing

    def clear(self) -> None:
        """An empty site, that was asked nothing."""
        self._pages.clear()
        self._wild.clear()
        self.asked.clear()

    # Where it is

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def secure(self, path: str = "/", host: str = "localhost") -> str:
        return f"https://{host}:{self.secure_port}{path}"

    @property
    def allowed(self) -> tuple[str, ...]:
        """For Policy.allowed and the setting ``reader_allow``: this site alone, by every name."""
        return (f"127.0.0.1:{self.port}", f"127.0.0.1:{self.secure_port}",
                f"localhost:{self.port}", f"localhost:{self.secure_port}")  # fmt: skip

    @property
    def paths(self) -> list[str]:
        """What was asked for, oldest first, with queries."""
        return [asked.target for asked in self.asked]

    def policy(self, **changes: Any) -> Policy:
        """A Policy that reaches this site, trusts its authority, and does not wait between requests."""
        ours: dict[str, Any] = {
            "allowed": self.allowed,
            "ca": str(self.authority),
            "gap": 0.0,
            "backoff": 0.0,
        }
        return Policy(**({"gap": 0.0, "backoff": 0.0} | ours | changes))

    async def names(self, host: str) -> Sequence[str]:
        """A resolver: localhost and every name under .test is this site, and no other is known."""
        if host == "localhost" or host.endswith(".test"):
            return ["127.0.0.1"]
        raise OSError(-2, "Name or service not known")

    # Answering

    def answer(self, asked: Asked) -> Answer:
        """What is said to ``asked``, which is written down."""
        self.asked.append(asked)
        page = self._pages.get(asked.target) or self._pages.get(asked.path)
        if page is None:
            return Answer(404, b"<title>Not found</title><p>There is nothing here.</p>")
        return page(asked)

    def wildly(self, asked: Asked) -> Wild | None:
        """Who answers ``asked`` by hand, where somebody does."""
        return self._wild.get(asked.target) or self._wild.get(asked.path)


# Evil, to be put up with site.wild()


async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never says a word."""
    await asyncio.sleep(600)


async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter, media: str = "text/plain") -> None:
    """A byte every 20 ms: never silent for long, never done."""
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: 1000000\r\n\r\n".encode())
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body without an end, as fast as it is read."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def endless_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A head without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: " + b"y" * 4000 + b"\r\n")
        await writer.drain()


async def cut_short(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Promises a thousand bytes and closes after ten."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n0123456789")


async def slam(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closes without an answer."""


async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with what is no HTTP."""
    writer.write(b"220 mail.example.test ESMTP ready\r\n")


@cache
def gzipped(size: int, filling: bytes = b"\0") -> bytes:
    """``size`` bytes of ``filling`` as gzip: a thousandth of it, and made without ever being whole."""
    packer = zlib.compressobj(9, wbits=31)
    block = filling * (1 << 20)
    whole, rest = divmod(size, len(block))
    return b"".join(
        [*(packer.compress(block) for _ in range(whole)), packer.compress(block[:rest]), packer.flush()]
    )


@cache
def brotlied(size: int) -> bytes:
    """``size`` zeros as brotli."""
    import brotli

    packer = brotli.Compressor(quality=5)
    block = bytes(1 << 20)
    return b"".join([*(packer.process(block) for _ in range(size >> 20)), packer.finish()])


JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
LEGACY = ("shift_jis", "euc_jp", "iso2022_jp")


def furnish(site: Site) -> None:
    """The standard set.

    /chain/N redirects to /chain/N-1 … /chain/0, a page · /loop ↔ /loop/back · /private → 169.254.169.254
    /elsewhere → other.test · /file → file:///etc/passwd · /nowhere: 302 without a Location
    /drip /endless /endless-head /hang /cut /slam /babble · /bomb.gz /bomb.br: 100 MB each
    /large: says 100 MB and sends it not · /etag: ETag and Last-Modified, 304 where they are named
    /busy: 429, once, with Retry-After 0 · /closed: 429 with Retry-After 3600 · /down: 503
    /{shift_jis,euc_jp,iso2022_jp}{,-meta,-header}: Japanese without a word of it, with <meta>, with a header
    /wrong: HTML as application/octet-stream · /picture: PNG · /empty: nothing, 200
    /guide: HTML with its Markdown at /guide.md and by Accept · /llms.txt · /robots.txt: all but /secret
    """
    site.put("/", "<title>Home</title><h1>Home</h1><p>A site of the tests.</p>")
    _moved(site)
    _evil(site)
    _polite(site)
    _legacy(site)
    site.put("/wrong", "<h1>HTML</h1>", "application/octet-stream")
    site.put("/picture", b"\x89PNG\r\n\x1a\n" + bytes(64), "image/png")
    site.put("/empty", b"")
    site.ask("/guide", _guide)
    site.put("/guide.md", "# Guide\n\nFirst, open the lid.\n", "text/markdown; charset=utf-8")
    site.put(
        "/llms.txt", "# Site\n\n> A site of the tests.\n\n- [Guide](/guide.md)\n", "text/plain; charset=utf-8"
    )
    site.put("/robots.txt", "User-agent: *\nDisallow: /secret\n", "text/plain")
    site.put("/secret", "<p>Not for robots.</p>")


def _moved(site: Site) -> None:
    site.put("/chain/0", "<title>End</title><p>The end of the chain.</p>")
    for step in range(1, 21):
        site.redirect(f"/chain/{step}", f"/chain/{step - 1}", (301, 302, 303, 307, 308)[step % 5])
    site.redirect("/loop", "/loop/back")
    site.redirect("/loop/back", "/loop")
    site.redirect("/private", "http://169.254.169.254/latest/meta-data/")
    site.redirect("/elsewhere", site.url("/", host="other.test"))
    site.redirect("/file", "file:///etc/passwd")
    site.ask("/nowhere", lambda _: Answer(302))


def _evil(site: Site) -> None:
    by_hand = {
        "/drip": drip, "/endless": endless, "/endless-head": endless_head, "/hang": hang,
        "/cut": cut_short, "/slam": slam, "/babble": babble,
    }  # fmt: skip
    for path, writing in by_hand.items():
        site.wild(path, writing)
    site.ask("/bomb.gz", lambda _: Answer(body=gzipped(100 << 20), headers={"Content-Encoding": "gzip"}))
    site.ask("/bomb.br", lambda _: Answer(body=brotlied(100 << 20), headers={"Content-Encoding": "br"}))
    site.put("/large", b"", headers={"Content-Length": str(100 << 20)})


def _polite(site: Site) -> None:
    site.ask("/etag", _tagged)
    site.play("/busy", Answer(429, headers={"Retry-After": "0"}), Answer(body=b"<p>Now then.</p>"))
    site.put("/closed", "<p>Later.</p>", status=429, headers={"Retry-After": "3600"})
    site.put("/down", "<p>Not now.</p>", status=503)


def _legacy(site: Site) -> None:
    for charset in LEGACY:
        text = f"<title>猫</title><p>{JAPANESE}</p>"
        site.put(f"/{charset}", text.encode(charset), "text/html")
        site.put(f"/{charset}-meta", f'<meta charset="{charset}">{text}'.encode(charset), "text/html")
        site.put(f"/{charset}-header", text.encode(charset), f"text/html; charset={charset}")


def _tagged(asked: Asked) -> Answer:
    marks = {"ETag": '"one"', "Last-Modified": formatdate(1_700_000_000, usegmt=True)}
    known = asked.headers.get("if-none-match") == marks["ETag"]
    known = known or asked.headers.get("if-modified-since") == marks["Last-Modified"]
    return Answer(304, headers=marks) if known else Answer(body=b"<p>Tagged.</p>", headers=marks)


def _guide(asked: Asked) -> Answer:
    if "text/markdown" in asked.headers.get("accept", ""):
        return Answer(body=b"# Guide\n\nFirst, open the lid.\n", media_type="text/markdown; charset=utf-8")
    return Answer(body=b"<title>Guide</title><nav>Menu</nav><h1>Guide</h1><p>First, open the lid.</p>")


# Running it


@contextmanager
def running(certificate: Certifying | None = None) -> Iterator[Site]:
    """The site in a thread of its own, until the end of the block.

    ``certificate`` issues that of ``secure`` from an authority (trustme.CA): one that is expired, say.
    """
    loop = asyncio.new_event_loop()
    started: list[Site] = []
    up, down = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(certificate) as site:
            started.append(site)
            up.set()
            await down.wait()

    thread = threading.Thread(target=lambda: _run(loop, serve()), name="site", daemon=True)
    thread.start()
    if not up.wait(LONG):
        raise RuntimeError("the site did not start")
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(down.set)
        thread.join(LONG)


def _run(loop: asyncio.AbstractEventLoop, work: Any) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)


@asynccontextmanager
async def serving(certificate: Certifying | None = None) -> AsyncIterator[Site]:
    """The site in the loop that is running."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder) / "authority.pem"
        context = _certified(authority, certificate or (lambda ca: ca.issue_cert(*HOSTS)))
        doors: list[asyncio.Server] = []
        busy: set[asyncio.Task[None]] = set()
        site = Site(0, 0, authority)

        def door(secure: bool) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
            def opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.create_task(_connection(site, reader, writer, secure))
                busy.add(task)
                task.add_done_callback(busy.discard)

            return opened

        doors.append(await asyncio.start_server(door(False), "127.0.0.1", 0))
        doors.append(await asyncio.start_server(door(True), "127.0.0.1", 0, ssl=context))
        site.port, site.secure_port = (one.sockets[0].getsockname()[1] for one in doors)
        try:
            yield site
        finally:
            for one in doors:
                one.close()
            for task in list(busy):
                task.cancel()
            await asyncio.gather(*busy, return_exceptions=True)


def _certified(authority: Path, certificate: Certifying) -> ssl.SSLContext:
    import trustme

    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(authority))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate(ca).configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def _connection(
    site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secure: bool
) -> None:
    site.connections += 1
    tunnel = writer.get_extra_info("ssl_object")
    try:
        if tunnel is not None and tunnel.selected_alpn_protocol() == "h2":
            await _second(site, reader, writer)
        else:
            while await _first(site, reader, writer, secure):
                pass
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        with contextlib.suppress(OSError):
            writer.close()


async def _first(
    site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secure: bool
) -> bool:
    """One request over HTTP/1.1; False where the connection ends after it."""
    begin = await reader.readexactly(1)
    if not begin.isalpha():  # TLS, say
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        return False
    head = (begin + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    asked = Asked(method, target, headers, "1.1", secure)
    if (wild := site.wildly(asked)) is not None:
        site.asked.append(asked)
        await wild(reader, writer)
        await writer.drain()
        return False
    answer = site.answer(asked)
    lines = [f"HTTP/1.1 {answer.status} Said", *(f"{name}: {value}" for name, value in answer.lines())]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if method == "HEAD" else answer.body))
    await writer.drain()
    return headers.get("connection", "").lower() != "close" and int(
        answer.head().get("Content-Length", 0)
    ) == len(answer.body)


async def _second(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Requests over HTTP/2, answered one by one, until the other side leaves."""
    import h2.config
    import h2.connection
    import h2.events

    talk = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    talk.initiate_connection()
    left: dict[int, bytes] = {}
    while True:
        writer.write(talk.data_to_send())
        await writer.drain()
        if not (data := await reader.read(65536)):
            return
        for event in talk.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                left[event.stream_id] = _heard(site, talk, event)
            elif isinstance(event, h2.events.StreamReset):
                left.pop(event.stream_id, None)
            elif isinstance(event, h2.events.ConnectionTerminated):
                return
        for stream in list(left):
            left[stream] = _sent(talk, stream, left[stream])
            if not left[stream]:
                del left[stream]


def _heard(site: Site, talk: Any, event: Any) -> bytes:
    """Answers the head, and returns the body that is to be sent."""
    said = dict(event.headers)
    headers = {name: value for name, value in said.items() if not name.startswith(":")}
    headers.setdefault("host", said.get(":authority", ""))
    answer = site.answer(Asked(said[":method"], said[":path"], headers, "2", True))
    lines = [
        (":status", str(answer.status)),
        *((name.lower(), value) for name, value in answer.lines()),
    ]
    talk.send_headers(event.stream_id, lines, end_stream=not answer.body)
    return answer.body


def _sent(talk: Any, stream: int, body: bytes) -> bytes:
    """Sends what the other side has room for, and returns the rest."""
    while body:
        room = min(talk.local_flow_control_window(stream), talk.max_outbound_frame_size)
        if not room:
            return body
        talk.send_data(stream, body[:room], end_stream=len(body) <= room)
        body = body[room:]
    return body
