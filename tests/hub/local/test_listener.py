"""The hub's local socket: who may connect, and limits for untrusted connections."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tabane.hub.local import handshake as hellos
from tabane.hub.local import listener as door
from tabane.hub.local.handshake import Hello, HelloRefused, Welcome
from tabane.hub.local.listener import HubIdentity, HubListener, refusal, trusted, uid_in
from tests.harness.patience import LONG

HELLO = Hello("1.0", "mcp", home="/home", servers="/s.json")
HOUSE = HubIdentity("1.0", "/home", "/s.json", True)
LIMIT = LONG


class Reception:
    """Takes everybody, up to ``places``."""

    def __init__(self, places: int = 10) -> None:
        self.places = places
        self.taken: list[tuple[int, Hello]] = []
        self.changed = asyncio.Event()

    def refuses(self, hello: Hello) -> HelloRefused | None:
        return None

    def house(self) -> HubIdentity:
        return HOUSE

    def welcome(self) -> Welcome:
        return Welcome("1.0", 7, "/s.json")

    def full(self, hello: Hello) -> bool:
        return len(self.taken) >= self.places

    def take(self, fd: int, hello: Hello) -> None:
        self.taken.append((fd, hello))
        self.changed.set()


@asynccontextmanager
async def open_listener(
    tmp_path: Path,
    *,
    places: int = 10,
    peer_uid: Callable[[socket.socket], int] | None = None,
    hello_limit: float = 5.0,
) -> AsyncIterator[tuple[HubListener, Reception, str]]:
    """A listener, who takes its connections, and the path of its socket, which is removed in the end."""
    path = str(tmp_path / "hub.sock")
    reception = Reception(places)
    listener = HubListener(asyncio.get_running_loop(), path, reception, peer_uid, hello_limit)
    listener.open()
    try:
        yield listener, reception, path
    finally:
        listener.close()
        for fd, _ in reception.taken:
            os.close(fd)
    assert not (tmp_path / "hub.sock").exists()


async def enter(path: str, line: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(line)
    return reader, writer


async def remainder(reader: asyncio.StreamReader) -> bytes:
    """What still comes before the end, which may be a reset where not all that was said was read."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def greet(path: str, hello: Hello) -> Welcome | HelloRefused:
    reader, writer = await enter(path, hellos.encode(hello))
    try:
        return hellos.read_answer(await reader.readline())
    finally:
        writer.close()


async def test_a_hello_is_answered_and_the_connection_handed_over(tmp_path: Path) -> None:
    async with open_listener(tmp_path) as (listener, reception, path):
        reader, writer = await enter(path, hellos.encode(HELLO)[:10])
        writer.write(hellos.encode(HELLO)[10:])
        assert hellos.read_answer(await reader.readline()) == Welcome("1.0", 7, "/s.json")
        await reception.changed.wait()
        ((fd, hello),) = reception.taken
        assert hello == HELLO
        os.write(fd, b"mine\n")
        assert await reader.readline() == b"mine\n"
        listener.close()
        os.write(fd, b"still\n")
        assert await reader.readline() == b"still\n"
        writer.close()


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\x00\n",
        b"{}\n",
        b"x" * (hellos.MAX_HELLO + 1),
        b'{"tabane":"hello"}\n',
    ],
)
async def test_what_is_no_hello_is_shown_out_and_the_next_one_served(tmp_path: Path, line: bytes) -> None:
    async with open_listener(tmp_path) as (_, _, path):
        reader, writer = await enter(path, line)
        assert await remainder(reader) == b""
        writer.close()
        assert isinstance(await greet(path, HELLO), Welcome)


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    async with open_listener(tmp_path, hello_limit=0.05) as (_, _, path):
        reader, writer = await enter(path, b'{"tabane"')
        assert await reader.read() == b""
        writer.close()
        while not isinstance(await _greeted(path), Welcome):  # its hello may come too late, too
            pass


async def test_many_who_say_nothing_leave_room_again(tmp_path: Path) -> None:
    async with open_listener(tmp_path) as (_, _, path):
        silent = [await enter(path, b"") for _ in range(door.MOST_GREETINGS)]
        reader, writer = await enter(path, b"")
        assert await remainder(reader) == b""
        writer.close()
        for _, other in silent:
            other.close()
        while not isinstance(await _greeted(path), Welcome):
            pass


async def _greeted(path: str) -> Welcome | HelloRefused | None:
    try:
        return await greet(path, HELLO)
    except (hellos.InvalidHello, OSError):
        return None


async def test_another_user_is_shown_out_before_a_word(tmp_path: Path) -> None:
    async with open_listener(tmp_path, peer_uid=lambda _: os.getuid() + 1) as (_, reception, path):
        reader, writer = await enter(path, b"")
        assert await reader.read() == b""
        writer.close()
        assert reception.taken == []


async def test_a_peer_whose_user_cannot_be_told_is_shown_out(tmp_path: Path) -> None:
    def unknown(peer: socket.socket) -> int:
        raise OSError("no")

    async with open_listener(tmp_path, peer_uid=unknown) as (_, _, path):
        reader, writer = await enter(path, b"")
        assert await reader.read() == b""
        writer.close()


def test_the_kernel_tells_the_user_of_a_peer() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert door.uid_of(one) == os.getuid()


async def test_a_full_house_says_so(tmp_path: Path) -> None:
    async with open_listener(tmp_path, places=1) as (_, _, path):
        assert isinstance(await greet(path, HELLO), Welcome)
        answer = await greet(path, HELLO)
        assert isinstance(answer, HelloRefused)
        assert answer.code == "full"


async def test_a_socket_that_a_dead_hub_left_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "hub.sock"))
    left.close()

    async with open_listener(tmp_path) as (_, _, path):
        assert isinstance(await greet(path, HELLO), Welcome)
        assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("hello", "house", "code"),
    [
        (HELLO, HOUSE, None),
        (HELLO._replace(home="", servers=None), HOUSE, None),
        (HELLO._replace(servers="/./s.json"), HOUSE, None),
        (HELLO._replace(home="/other"), HOUSE, "home"),
        (HELLO._replace(servers="/other.json"), HOUSE, "servers"),
        (HELLO._replace(version="2.0"), HOUSE, None),
        (HELLO._replace(version="2.0", role="replace"), HOUSE, None),
        (HELLO._replace(version="1.0", role="replace"), HOUSE, "version"),
        (HELLO._replace(version="2.0", role="replace"), HOUSE._replace(replaceable=False), "standalone"),
    ],
)
def test_whom_a_hub_serves(hello: Hello, house: HubIdentity, code: str | None) -> None:
    answer = refusal(hello, house)
    assert (answer and answer.code) == code
    if answer:
        assert set(answer.texts) == {"en", "ja"}


def test_a_refusal_for_another_servers_file_names_both() -> None:
    answer = refusal(HELLO._replace(servers="/other.json"), HOUSE)
    assert answer is not None
    assert "/other.json" in answer.text("en")
    assert "/s.json" in answer.text("en")


def test_only_the_hubs_own_user_is_trusted() -> None:
    assert trusted(1000, 1000)
    assert not trusted(1001, 1000)
    assert not trusted(0, 1000)


def test_what_the_kernels_say_of_a_peer() -> None:
    assert uid_in(struct.pack("=iII", 42, 1000, 100), "linux") == 1000
    assert uid_in(struct.pack("=IIh", 0, 501, 1) + bytes(66), "darwin") == 501
    with pytest.raises(ValueError):
        uid_in(struct.pack("=II", 9, 501), "darwin")
