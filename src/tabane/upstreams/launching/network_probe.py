"""Whether there is a network: one quick look at where packages come from, or at the proxy before it.

Without it, a launcher tries for minutes before it says that it reaches nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from urllib.parse import urlsplit

WAIT = 3.0
"""Seconds until a network that answers nothing counts as none."""

VALID = 10.0
"""Seconds for which an answer is used again."""

SITES = ("https://www.npmjs.com", "https://pypi.org")
"""Sites that answer wherever packages can be downloaded by default."""

_NAMED = ("NPM_CONFIG_REGISTRY", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_FILES = {"NPM_CONFIG_USERCONFIG": ".npmrc", "UV_CONFIG_FILE": ".config/uv/uv.toml"}
"""Settings of launchers, in which a company names its registry: by variable, the path in the home folder."""

_MOST_ADDRESSES = 8
_find_addresses = re.compile(r"https?://[^\s\"',\]]+").findall

IMPATIENT = {
    "npm_config_prefer_offline": "true",
    "npm_config_fetch_retries": "0",
    "npm_config_fetch_timeout": "4000",
    "npm_config_update_notifier": "false",
    "UV_HTTP_RETRIES": "0",
    "UV_HTTP_TIMEOUT": "4",
    "UV_HTTP_CONNECT_TIMEOUT": "4",
}
"""Variables with which launchers give up soon. A registry that the probe does not know may still answer."""


class NetworkProbe:
    """Looks for the network at most once in :data:`VALID` seconds. ``environment`` names proxies.

    ``known`` is whether there is one, if somebody has looked already.
    """

    def __init__(self, environment: Mapping[str, str], known: bool | None = None) -> None:
        self._environment, self._known = environment, known
        self._looking: asyncio.Future[bool] | None = None
        self._until = 0.0

    async def online(self) -> bool:
        """Return whether a registry, or a proxy before one, answers within :data:`WAIT` seconds."""
        if self._known is not None:
            return self._known
        if self._looking is None or (self._looking.done() and time.monotonic() > self._until):
            self._looking = asyncio.ensure_future(asyncio.to_thread(is_online, self._environment))
            self._until = time.monotonic() + WAIT + VALID
        return await asyncio.shield(self._looking)


def is_online(environment: Mapping[str, str], wait: float = WAIT) -> bool:
    """Return whether a registry that the user names answers, or one of :data:`SITES`.

    Blocks for at most ``wait`` seconds.
    """
    from tabane.access.oauth.fetching import proxy_of  # a hub that starts does not look

    addresses = list(dict.fromkeys((*_named_registries(environment), *SITES)))
    found, left = threading.Event(), threading.Semaphore(0)

    def look(address: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            if _answers(address, proxy_of(address, environment), wait):
                found.set()
        left.release()

    # Not the threads of a pool: nothing ends the search for a name, and nobody waits for these.
    for address in addresses:
        threading.Thread(target=partial(look, address), daemon=True, name="network probe").start()
    end = time.monotonic() + wait
    for _ in addresses:
        if not left.acquire(timeout=max(0.0, end - time.monotonic())) or found.is_set():
            break
    return found.is_set()


def _named_registries(environment: Mapping[str, str]) -> list[str]:
    """Return the registries of the user's environment and of the settings of launchers."""
    upper = {name.upper(): value for name, value in environment.items()}
    named = [upper[name] for name in _NAMED if "://" in upper.get(name, "")]
    for variable, usual in _FILES.items():
        path = upper.get(variable) or os.path.join(upper.get("HOME") or "", usual)
        with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
            named += _find_addresses(file.read(1 << 16))
    return named[:_MOST_ADDRESSES]


def found_hosts(hosts: Iterable[str], wait: float = 1.0) -> frozenset[str]:
    """Return the hosts whose address is known within ``wait`` seconds. Blocks for that long.

    A search for a name cannot be ended: whoever waits for its thread waits for the whole time of a resolver.
    """
    found: set[str] = set()

    def look(host: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            socket.getaddrinfo(host, None)
            found.add(host)

    threads = [threading.Thread(target=partial(look, host), daemon=True) for host in dict.fromkeys(hosts)]
    end = time.monotonic() + wait
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return frozenset(found)


def _answers(address: str, proxy: str | None, wait: float) -> bool:
    """Return whether a server, or the proxy before it, says anything. Raises OSError and ValueError."""
    target = urlsplit(address)
    port = target.port or (443 if target.scheme == "https" else 80)
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
    host, at = (via.hostname, via.port or 80) if via else (target.hostname, port)
    with socket.create_connection((host or "", at), wait) as connection:
        connection.settimeout(wait)
        if via is not None and via.scheme == "http":
            line = f"{target.hostname}:{port}"
            connection.sendall(f"CONNECT {line} HTTP/1.1\r\nHost: {line}\r\n\r\n".encode())
            return bool(connection.recv(1))
        if target.scheme != "https" or via is not None:
            return True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Only whether somebody answers is asked: nothing is sent, and nothing is believed.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(connection, server_hostname=target.hostname).close()
    return True
