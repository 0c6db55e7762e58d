"""`tabane install --url`: a hub on another machine, with its key and authority kept as files of this home."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tabane.access.key_store import PREFIX, id_in
from tabane.cli.options import combined, option
from tabane.cli.output import Terminal, lang
from tabane.errors import BadArguments, ConfigurationError, HubError
from tabane.hub.local.endpoint import home_of
from tabane.hub.local.known_hubs import CA, KEY, folder_of, is_local, known_hub
from tabane.hub.rpc.client import connect_to
from tabane.messages import say
from tabane.settings.files import private_folder, write_private

_TOKEN = "TABANE_TOKEN"
_PORTS = {"http": 8765, "https": 443}
_MOST_CA = 1 << 20


class RemoteOptions(Struct, frozen=True):
    """The options about a hub on another machine. Without ``url``, the assistant uses this machine's hub."""

    url: str | None
    ca: str | None
    key_from_stdin: bool

    def checked_url(self) -> str | None:
        """Return the URL as the assistant's file has it. Raises BadArguments."""
        if self.url is None:
            if self.ca or self.key_from_stdin:
                raise BadArguments(
                    say("--ca and --key-from-stdin belong to a hub on another machine. Name it with --url."),
                    "--url",
                )
            return None
        self._place()
        return self.url

    def keep(self, terminal: Terminal, *, force: bool, dry: bool) -> None:
        """Keep the key and the authority for the hub, once the hub accepted them; nothing without a URL.

        ``force`` keeps them although the hub does not answer. Raises BadArguments, ConfigurationError and
        HubError.
        """
        if self.url is None or dry:
            return
        host, port, tls = self._place()
        home = home_of(os.environ)
        known = known_hub(home, host, port, tls=tls)
        authority = self._read_authority()
        key = self._read_key(terminal, known.key)
        self._try(terminal, key, self.ca or known.authority, force=force)
        folder = folder_of(home, host, port)
        private_folder(home)
        private_folder(os.path.dirname(folder))
        private_folder(folder)
        try:
            write_private(os.path.join(folder, KEY), f"{key}\n".encode())
            if authority is not None:
                write_private(os.path.join(folder, CA), authority)
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=folder, reason=error.strerror)
            ) from None
        terminal.note(say("The key is kept in {path}, which only you can read.", path=Path(folder, KEY)))

    def _place(self) -> tuple[str, int, bool]:
        """Return host, port and whether there is TLS."""
        assert self.url is not None
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            host, port = None, None
        if not host or port is None or parts.query or parts.username:
            raise BadArguments(
                say("{url}: an address must be https://host:port.", url=self.url[:200]), "--url"
            )
        if parts.scheme == "http" and not is_local(host):
            raise BadArguments(
                say(
                    "{url}: others could read the key on its way. Use https://, or ask for the hub's address "
                    "with TLS.",
                    url=self.url,
                ),
                "--url",
            )
        return host, port, parts.scheme == "https"

    def _read_key(self, terminal: Terminal, known: str | None) -> str:
        if self.key_from_stdin:
            key = sys.stdin.readline().strip()
        else:
            key = os.environ.get(_TOKEN) or known or ""
            if not key and terminal.asks:
                key = terminal.ask(say("API key"), hide_input=True).strip()
        if not key:
            raise BadArguments(
                say(
                    "The hub needs your API key. Put it into {variable}, or pipe it: "
                    "tabane install … --key-from-stdin < key",
                    variable=_TOKEN,
                ),
                "--key-from-stdin",
            )
        if not (key.isascii() and key.isprintable()) or (key.startswith(PREFIX) and id_in(key) is None):
            raise BadArguments(
                say("The API key is not complete. Copy all of it, without spaces."), "--key-from-stdin"
            )
        return key

    def _read_authority(self) -> bytes | None:
        if self.ca is None:
            return None
        try:
            with open(self.ca, "rb") as file:
                found = file.read(_MOST_CA)
        except OSError as error:
            raise BadArguments(
                say("{path} cannot be read: {reason}.", path=self.ca, reason=error.strerror), "--ca"
            ) from None
        if b"-----BEGIN CERTIFICATE-----" not in found or b"PRIVATE KEY" in found:
            raise BadArguments(say("{path} is not a PEM file with certificates alone.", path=self.ca), "--ca")
        return found

    def _try(self, terminal: Terminal, key: str, authority: str | None, *, force: bool) -> None:
        """Connect once, so that a mistake is found now and not by the assistant. Raises HubError."""
        assert self.url is not None
        try:
            with terminal.working(say("Connecting to the hub")):
                connect_to(self.url, key, lang(), authority=authority).close()
        except HubError as error:
            if not force:
                if authority is None and self.url.startswith("https:"):
                    terminal.note(
                        say("If a file ca.pem came with your key, name it: --ca ca.pem. To go on: --force")
                    )
                raise
            terminal.warn(error)


_options = combined(
    (
        option(
            "--url",
            metavar="URL",
            help=say(
                "Connect to a hub on another machine, such as https://hub.local:8765. Your key is read from "
                "TABANE_TOKEN, from standard input or from you, and kept in a file that only you can read."
            ),
        ),
        option(
            "--ca",
            metavar="FILE",
            help=say("With --url: the file of the authority that signed the hub's certificate."),
        ),
        option(
            "--key-from-stdin",
            is_flag=True,
            help=say("With --url: read the API key from standard input."),
        ),
    )
)


def remote_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, and give them to the function of a command as ``remote``."""

    @wraps(function)
    def run(*arguments: Any, url: str | None, ca: str | None, key_from_stdin: bool, **options: Any) -> Any:
        return function(*arguments, remote=RemoteOptions(url, ca, key_from_stdin), **options)

    decorated: Callable[..., Any] = _options(run)
    return decorated
