"""Whether there is a network is known within seconds, whatever the network does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tabane.upstreams.launching.package_downloads import is_online
from tests.harness.patience import LONG
from tests.harness.ports import reserved_port


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server whose connections are given to ``answer``, each in a thread; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()


def refuse(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")


def keep_silent(connection: socket.socket) -> None:
    """Answer nothing, as a network that drops packets does."""


def test_a_proxy_that_answers_is_a_network() -> None:
    with listening(refuse) as address:
        assert is_online({"HTTPS_PROXY": f"http://{address}"}, LONG)


def test_a_registry_that_the_environment_names_counts(request: pytest.FixtureRequest) -> None:
    with listening(keep_silent) as registry:
        proxy = f"http://127.0.0.1:{reserved_port(request)}"
        assert is_online({"https_proxy": proxy, "npm_config_registry": f"http://{registry}/"}, LONG)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".npmrc", "registry=http://{registry}/npm/\n"),
        (".config/uv/uv.toml", '[[index]]\nurl = "http://{registry}/"\n'),
    ],
)
def test_a_registry_of_a_company_that_a_launchers_settings_name_counts(
    request: pytest.FixtureRequest, tmp_path: Path, file: str, text: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    with listening(keep_silent) as registry:
        (tmp_path / file).write_text(text.format(registry=registry))
        proxy = f"http://127.0.0.1:{reserved_port(request)}"
        found = {"https_proxy": proxy, "HTTPS_PROXY": proxy, "HOME": str(tmp_path)}
        assert is_online(found, LONG)
    assert not is_online({"HTTPS_PROXY": proxy, "HOME": str(tmp_path / "nobody")}, LONG)


def test_a_proxy_that_refuses_connections_is_none(request: pytest.FixtureRequest) -> None:
    assert not is_online({"HTTPS_PROXY": f"127.0.0.1:{reserved_port(request)}"}, LONG)


def test_a_network_that_swallows_everything_is_none_after_the_wait() -> None:
    with listening(keep_silent) as address:
        assert not is_online({"HTTPS_PROXY": f"http://{address}"}, 0.1)
