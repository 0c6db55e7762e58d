"""Addresses that a page's scripts may reach, and the errors for others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest

from tabane.errors import ReadError
from tests.reader.rendering.conftest import Show
from tests.reader.site import Site

# Every way out that a page has. Each says when it is done; the page waits for them with a request of its own.
EVERY_WAY = """<p id=said></p><script>
const at = "127.0.0.1:%(port)d", udp = "127.0.0.1:%(udp)d";
const say = text => said.append(text + "; ");
const ways = {
  fetch: () => fetch(`http://${at}/fetch`, {mode: "no-cors"}),
  tls: () => fetch(`https://${at}/tls`, {mode: "no-cors"}),
  name: () => fetch(`http://localhost:%(port)d/name`, {mode: "no-cors"}),
  spelt: () => fetch(`http://0x7f.1:%(port)d/spelt`, {mode: "no-cors"}),
  metadata: () => fetch("http://169.254.169.254/latest/meta-data/", {mode: "no-cors"}),
  six: () => fetch("http://[::1]:%(port)d/", {mode: "no-cors"}),
  redirect: () => fetch("/private", {mode: "no-cors"}),
  socket: () => new Promise((open, fail) => {
    const it = new WebSocket(`ws://${at}/socket`); it.onopen = open; it.onerror = () => fail("no"); }),
  picture: () => new Promise((open, fail) => {
    const it = new Image(); it.onload = open; it.onerror = () => fail("no");
    it.src = `http://${at}/picture`; }),
  script: () => new Promise((open, fail) => {
    const it = document.createElement("script"); it.onload = open; it.onerror = () => fail("no");
    it.src = `http://${at}/script`; document.head.append(it); }),
  worker: () => new Promise((open, fail) => {
    const it = new Worker(URL.createObjectURL(new Blob([`fetch("http://${at}/worker", {mode: "no-cors"})
      .then(() => postMessage("yes"), () => postMessage("no"))`])));
    it.onmessage = told => told.data === "yes" ? open() : fail("no"); }),
  transport: async () => { const it = new WebTransport(`https://${udp}/`); it.closed.catch(() => 0);
    await it.ready; },
};
for (const relation of ["dns-prefetch", "preconnect", "prefetch", "modulepreload"]) {
  const it = document.createElement("link");
  it.rel = relation; it.href = `http://${at}/${relation}`; document.head.append(it);
}
const frame = document.createElement("iframe"); frame.src = `http://${at}/frame`; document.body.append(frame);
const form = document.createElement("form"); form.target = "_blank"; form.action = `http://${at}/form`;
document.body.append(form); form.submit();
navigator.sendBeacon(`http://${at}/beacon`);
open(`http://${at}/popup`);
try {
  const peer = new RTCPeerConnection({iceServers: [{urls: `stun:${udp}`}]});
  peer.createDataChannel("x"); peer.setLocalDescription();
} catch (error) { say("no peers"); }
const tried = Object.entries(ways).map(([name, way]) =>
  way().then(() => say(name + " went through"), () => say(name + " refused")));
const ready = fetch("/busy");
Promise.all(tried).then(() => { say("all tried"); fetch("/tried"); });
</script>"""


@pytest.fixture
def neighbour() -> Iterator[tuple[int, int, list[bytes]]]:
    """A service of this computer that nobody allowed, by TCP and UDP: its ports, and what reached it."""
    reached: list[bytes] = []
    stream = socket.create_server(("127.0.0.1", 0))
    packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    packets.bind(("127.0.0.1", 0))

    def streams() -> None:
        with contextlib.suppress(OSError):
            while True:
                stream.accept()
                reached.append(b"a connection")

    def datagrams() -> None:
        with contextlib.suppress(OSError):
            while True:
                if data := packets.recv(2000):
                    reached.append(data)

    threads = [threading.Thread(target=work, daemon=True) for work in (streams, datagrams)]
    for thread in threads:
        thread.start()
    yield stream.getsockname()[1], packets.getsockname()[1], reached
    for one in (stream, packets):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
    for thread in threads:
        thread.join(5)


def test_no_way_out_of_a_page_leads_to_what_the_guard_refuses(
    site: Site, show: Show, neighbour: tuple[int, int, list[bytes]]
) -> None:
    port, udp, reached = neighbour

    all_tried = asyncio.Event()

    async def busy(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await all_tried.wait()  # keeps the page from being quiet before everything was tried
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def tried(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        all_tried.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    site.wild("/busy", busy)
    site.wild("/tried", tried)
    site.redirect("/private", f"http://127.0.0.1:{port}/redirected")
    site.put("/", EVERY_WAY % {"port": port, "udp": udp})
    fetched = show(site.url("/"))
    text = fetched.body.decode()
    assert "all tried" in text
    assert "no peers" in text
    assert "went through" not in text
    assert text.count(" refused;") == 12
    assert not reached
    warning = str(fetched.warnings[0])
    assert f"127.0.0.1:{port}" in warning
    assert "169.254.169.254" in warning


@pytest.mark.parametrize(
    "leave",
    [
        "location = 'http://127.0.0.1:8080/'",
        "location = 'https://10.0.0.1/'",
        "document.body.innerHTML = '<meta http-equiv=refresh content=\"0;url=http://[::ffff:10.0.0.1]/\">'",
        "location = '/away'",
    ],
)
def test_a_page_that_leads_into_a_private_network_is_refused(site: Site, show: Show, leave: str) -> None:
    site.redirect("/away", "http://192.168.0.1/")
    site.put("/", f"<body><p>Here</p><script>{leave}</script>")
    with pytest.raises(ReadError) as raised:
        show(site.url("/"))
    assert raised.value.cause == "refused"


def test_a_page_cannot_lead_to_what_is_no_page(site: Site, show: Show) -> None:
    for leave in (
        "file:///etc/passwd",
        "chrome://version",
        "view-source:http://127.0.0.1/",
        "ftp://127.0.0.1/",
    ):
        site.put("/", f"<p>Here</p><script>location = '{leave}'</script>")
        text = show(site.url("/")).body.decode()
        assert "<p>Here</p>" in text
        assert "root:" not in text
    for url in ("file:///etc/passwd", "data:text/html,x"):
        with pytest.raises(ReadError) as raised:
            show(url)
        assert raised.value.cause == "scheme"


def test_a_name_that_changes_its_address_is_judged_each_time(site: Site, show: Show) -> None:
    asked: list[str] = []

    async def rebinding(host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1" if len(asked) == 1 else "10.1.2.3"]

    said = "fetch('/secret').then(() => it.append('got it'), () => it.append('not'))"
    site.put("/", f"<p id=it></p><script>{said}</script>")
    fetched = show(site.url("/", host="turns.example"), resolve=rebinding)
    assert '<p id="it">not</p>' in fetched.body.decode()
    assert site.paths == ["/"]
    assert "turns.example" in str(fetched.warnings[0])
    assert len(asked) >= 2


def test_the_gate_is_open_to_nobody_else(site: Site, show: Show) -> None:
    """A program that finds the port gets nothing without the password."""
    said: list[bytes] = []

    async def knock(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for port in await asyncio.to_thread(_listening):
            with contextlib.suppress(OSError):
                said.append(await asyncio.wait_for(_asked(port, site.url("/secret")), 60))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    site.wild("/knock", knock)
    site.put("/secret", "secret")
    site.put("/", "<p id=it></p><script>fetch('/knock').then(() => it.append('knocked'))</script>")
    assert "knocked" in show(site.url("/")).body.decode()
    assert any(answer.startswith(b"HTTP/1.1 407") for answer in said)
    assert "/secret" not in site.paths


def _listening() -> list[int]:
    """Ports of loopback that somebody of this process listens at."""
    import psutil

    return [
        one.laddr.port
        for one in psutil.Process().net_connections("tcp4")
        if one.status == "LISTEN" and one.laddr.ip == "127.0.0.1"
    ]


async def _asked(port: int, url: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic cGFnZTp4\r\n\r\n".encode())
    try:
        return await reader.read(200)
    finally:
        writer.close()
