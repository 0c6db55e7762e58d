"""All logins of a hub in memory and in `logins.json`, each change on disk before it counts.

A login has the client that Tabane is at an authorization server, and its tokens there. The file is in the
home, with mode 0600. With the keyring, it has only the names of logins.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from tabane.errors import ConfigurationError, TabaneError
from tabane.messages import Message, say
from tabane.servers.variables import SERVICE, keyring_lookup
from tabane.settings.files import read_private, write_private

if TYPE_CHECKING:
    AddressFault = Callable[[str], Message | None]
    """Returns why an IP address is not public; None if it is."""


log = logging.getLogger(__name__)

LOGINS_FILE = "logins.json"
_IN_KEYRING = "login:"
"""Beginning of the names of logins in the keyring. No variable can have such a name."""


Flow = Literal["authorization_code", "device_code"]


class LoginNetwork(Struct):
    """Environment of the hub, and its rule for addresses, for requests of logins.

    ``client_metadata_url`` is that of a document that describes Tabane as a client, hosted by the user. It is
    replaced when the settings change.
    """

    environment: Mapping[str, str]
    address_fault: AddressFault
    client_metadata_url: str = ""

    def __repr__(self) -> str:
        return "LoginNetwork()"


class KeptTokens(Struct, frozen=True, omit_defaults=True):
    """Tokens for one server. Times are seconds since 1970, and 0 if unknown.

    ``asked`` are the scopes of the request, ``scopes`` those that were granted.
    """

    access: str
    refresh: str = ""
    obtained: float = 0.0
    expires: float = 0.0
    scopes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"KeptTokens(expires={self.expires}, scopes={self.scopes})"

    @property
    def renew_at(self) -> float:
        """Return when to renew them: a minute before their end, later if they live for a short time."""
        if not self.expires:
            return float("inf")
        return self.expires - min(60.0, 0.2 * max(0.0, self.expires - self.obtained))


class KeptClient(Struct, frozen=True, omit_defaults=True):
    """A client at an authorization server. ``method`` is how it authenticates at the token endpoint.

    ``registered``: Tabane registered it there, with ``redirect`` as the address to which browsers return.
    ``expires`` is when its secret ends, 0 for never.
    """

    id: str
    secret: str = ""
    method: str = "none"
    registered: bool = False
    redirect: str = ""
    grants: tuple[str, ...] = ()
    expires: float = 0.0

    def __repr__(self) -> str:
        return f"KeptClient(method={self.method!r}, registered={self.registered})"


class KeptLogin(Struct, frozen=True, omit_defaults=True):
    """The login at one server. It is used only for the URL (a hash) and the issuer that it was made for.

    ``file`` is the servers file in which the server is.
    """

    url: str
    file: str
    issuer: str
    resource: str
    token_endpoint: str
    revocation_endpoint: str = ""
    audience: str = ""
    client: KeptClient | None = None
    tokens: KeptTokens | None = None

    def __repr__(self) -> str:
        return f"KeptLogin(issuer={self.issuer!r}, client={self.client!r}, tokens={self.tokens!r})"


def url_hash(url: str) -> str:
    """Return a hash of a URL, which may contain secrets."""
    return hashlib.sha256(url.encode()).hexdigest()


class _LoginDocument(Struct, frozen=True, omit_defaults=True):
    """``kept`` are the names whose logins are in the keyring."""

    version: int = 1
    logins: dict[str, KeptLogin] = {}
    kept: tuple[str, ...] = ()


class LoginFile:
    """Reads and writes all logins of a home; it blocks. ``keyring``: they are in the system's keyring."""

    def __init__(self, home: Path, *, keyring: bool) -> None:
        self._path, self._keyring = home / LOGINS_FILE, keyring

    def read(self) -> dict[str, KeptLogin]:
        """Return the logins by the names of their servers. Raises ConfigurationError."""
        document = self._document()
        found = dict(document.logins)
        for name in document.kept if self._keyring else ():
            text = keyring_lookup()(_IN_KEYRING + name)
            with suppress(msgspec.MsgspecError):
                if text:
                    found[name] = msgspec.json.decode(text, type=KeptLogin)
        return found

    def write(self, logins: Mapping[str, KeptLogin], changed: str) -> None:
        """Replace all logins, of which only that of ``changed`` differs. It is on disk at the return.

        Raises ConfigurationError.
        """
        if not self._keyring:
            self._replace(_LoginDocument(logins=dict(logins)))
            return
        before = self._document()
        for name in {changed, *before.logins}:  # those in the file are from before the keyring was used
            login = logins.get(name)
            if login is not None:
                self._ask_keyring("set_password", name, msgspec.json.encode(login).decode())
            elif name in before.kept:
                self._ask_keyring("delete_password", name)
        self._replace(_LoginDocument(kept=tuple(sorted(logins))))

    def _document(self) -> _LoginDocument:
        try:
            return msgspec.json.decode(read_private(self._path), type=_LoginDocument)
        except FileNotFoundError:
            return _LoginDocument()
        except msgspec.MsgspecError as error:
            raise ConfigurationError(say(
                "{path} is damaged: {reason}. Delete it, and log in again.",
                path=self._path, reason=str(error)[:200])) from None  # fmt: skip

    def _replace(self, document: _LoginDocument) -> None:
        try:
            write_private(self._path, msgspec.json.encode(document))
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be written: {reason}.", path=self._path, reason=error.strerror)
            ) from None

    def _ask_keyring(self, what: str, name: str, *given: str) -> None:
        keyring_lookup()  # says how to install it
        keyring = import_module("keyring")
        try:
            getattr(keyring, what)(SERVICE, _IN_KEYRING + name, *given)
        except keyring.errors.PasswordDeleteError:
            return
        except keyring.errors.KeyringError as error:
            raise ConfigurationError(
                say("The system's keyring cannot be changed: {detail}.", detail=error)
            ) from None


def file_of_backup(home: Path, *, keyring: bool) -> bytes | None:
    """Return the file as a backup with secrets contains it, those of the keyring included; None if empty."""
    logins = LoginFile(home, keyring=keyring).read()
    return msgspec.json.encode(_LoginDocument(logins=logins)) if logins else None


class LoginBook:
    """Logins by the names of their servers. Until :meth:`ready` has returned, there are none."""

    def __init__(self, file: LoginFile) -> None:
        self._file = file
        self._logins: dict[str, KeptLogin] = {}
        self._reading: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.problem: Message | None = None
        """Why the file could not be read or written the last time; None if it could."""

    @property
    def is_ready(self) -> bool:
        """Return whether the file was read."""
        return self._reading is not None and self._reading.done()

    async def ready(self) -> None:
        """Wait until the file was read. A file that cannot be read counts as empty."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_file())
        if not self._reading.done():
            await asyncio.shield(self._reading)

    async def _read_file(self) -> None:
        try:
            self._logins = await asyncio.to_thread(self._file.read)
        except TabaneError as error:
            self.problem = error.message
            log.error("logins are not available: %s", error)

    def get(self, name: str) -> KeptLogin | None:
        """Return the login at a server; None if there is none."""
        return self._logins.get(name)

    def names(self) -> Iterable[str]:
        """Return the names of the servers with a login."""
        return tuple(self._logins)

    async def put(self, name: str, login: KeptLogin | None) -> None:
        """Replace or remove a login. It is used even if it cannot be written, which is logged."""
        await self.ready()
        async with self._turn:
            if self._logins.get(name) == login:
                return
            if login is None:
                del self._logins[name]
            else:
                self._logins[name] = login
            logins = dict(self._logins)
            try:
                # Shielded: who gives up waiting must not stop it half way, with the next under way.
                await asyncio.shield(asyncio.to_thread(self._file.write, logins, name))
                self.problem = None
            except TabaneError as error:
                self.problem = error.message
                log.error("the login at %s is lost at the end of this hub: %s", name, error)
