"""Handshake on the hub's socket: one line of JSON each way; pure.

The client identifies itself (``hello``), and the hub accepts it (``welcome``) or refuses it with a reason
(``refused``). Later the hub may send ``drain``: it takes no more requests on this connection, but answers
those in flight. Texts are sent in each language. The bridge imports this module too, so it uses only the
standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from tabane.build import newer


def say(template: str, **fields: object) -> dict[str, str]:
    """Return the sentence in each language, because the other side may use another one.

    Named like :func:`tabane.messages.say`, so that its templates are found for translation.
    """
    from tabane.messages import Message  # loads gettext and pathlib: only after a failure

    message = Message(template, **fields)
    return {"en": message.render("en"), "ja": message.render("ja")}


def spoken(environ: Mapping[str, str]) -> str:
    """Return the locale of this process: TABANE_LANG if it is a language, else the system's; may be empty."""
    chosen = environ.get("TABANE_LANG", "").lower()
    if chosen in ("ja", "en"):
        return chosen
    return environ.get("LC_ALL") or environ.get("LC_MESSAGES") or environ.get("LANG") or ""


def lang_of(locale: str) -> str:
    """Return ``ja`` for a Japanese locale, else ``en``."""
    return "ja" if locale.lower().startswith("ja") else "en"


MAX_HELLO = 64 << 10
"""Bytes of a hello or its answer; more is refused."""

DRAIN = b'{"tabane":"drain"}\n'
"""The line that asks a bridge to send no more requests on this connection."""

HELD, BEGUN = b'{"tabane":"held","id":', b'{"tabane":"begun","id":'
"""Begin the lines that tell a bridge that a request waits for a person and was not sent, and that it is sent
from now on. Meanwhile, a bridge that loses its hub sends the request to the next one."""

END = b'{"tabane":"end"}\n'
"""The line that tells a bridge that a person has disconnected its client: the bridge ends too."""

DRAINING = "draining"
"""``data.reason`` of the error that a hub answers a request with which came after it began to
drain: the request was not begun, and a bridge sends it to the next hub."""

ROLES = ("mcp", "rpc", "replace", "stdio")
"""``mcp``: a bridge; ``rpc``: the command line; ``replace``: a newer version that asks the hub to
drain and end; ``stdio``: no connection at all, the client of a standalone hub."""


class InvalidHello(ValueError):
    """The line is not a hello, or not an answer to one."""


class Hello(NamedTuple):
    """The client that connects. ``home`` is the folder of the requested hub, empty for any hub there.

    ``version`` is a build's name (``0.2.0+g84d86c5``) and ``code`` the folder of its package. ``servers`` is
    the absolute path of the requested servers file, None if there was none. ``lang`` is a locale
    (``ja_JP.UTF-8``); ``mode`` is how tools are disclosed to this client, None for the hub's setting;
    ``roots`` are file URIs. ``profile`` is the profile that narrows what the client may use, ``server`` the
    server that it wants to be connected to alone.
    """

    version: str
    role: str
    home: str = ""
    pid: int = 0
    cwd: str = ""
    roots: tuple[str, ...] = ()
    mode: str | None = None
    lang: str = ""
    client: str = ""
    servers: str | None = None
    code: str = ""
    profile: str = ""
    server: str = ""


class VersionedProcess(Protocol):
    """A process with the name of its build, and the folder of its code; empty if it is not known."""

    @property
    def version(self) -> str: ...

    @property
    def code(self) -> str: ...


class Welcome(NamedTuple):
    """The hub's answer: its version, process, servers file, limits, and code.

    ``max_line`` is in bytes; ``grace`` is the number of seconds that calls in flight get when the hub ends.
    """

    version: str
    pid: int
    servers: str | None = None
    max_line: int = 64 << 20
    grace: float = 10.0
    code: str = ""


class HelloRefused(NamedTuple):
    """The hub's answer to a client that it does not serve. ``texts`` has the reason by language."""

    code: str
    texts: dict[str, str]

    def text(self, lang: str) -> str:
        return self.texts.get(lang) or self.texts.get("en") or self.code


def encode(message: Hello | Welcome | HelloRefused) -> bytes:
    """Return the hello as one line, with its newline."""
    if isinstance(message, HelloRefused):
        body: dict[str, Any] = {"tabane": "refused", "code": message.code, "message": message.texts}
    else:
        kind = "hello" if isinstance(message, Hello) else "welcome"
        body = {"tabane": kind, **message._asdict()}
    return json.dumps(body).encode() + b"\n"


def read_hello(line: bytes) -> Hello:
    """Parse the hello of a client. Unknown members are ignored. Raises :class:`InvalidHello`."""
    body = _members(line)
    if body.get("tabane") != "hello":
        raise InvalidHello("not a hello")
    roots = body.get("roots") or []
    if not isinstance(roots, list) or not all(isinstance(item, str) for item in roots):
        raise InvalidHello("roots is not a list of strings")
    hello = Hello(
        version=_string(body, "version"),
        role=_string(body, "role"),
        home=_string(body, "home"),
        pid=_number(body, "pid"),
        cwd=_string(body, "cwd"),
        roots=tuple(roots),
        mode=_string(body, "mode") or None,
        lang=_string(body, "lang"),
        client=_string(body, "client"),
        servers=_string(body, "servers") or None,
        code=_string(body, "code"),
        profile=_string(body, "profile"),
        server=_string(body, "server"),
    )
    if hello.role not in ("mcp", "rpc", "replace"):
        raise InvalidHello(f"unknown role {hello.role!r}")
    return hello


def read_answer(line: bytes) -> Welcome | HelloRefused:
    """Parse the answer of a hub. Raises :class:`InvalidHello` if it is not from a hub."""
    body = _members(line)
    if body.get("tabane") == "welcome":
        return Welcome(
            version=_string(body, "version"),
            pid=_number(body, "pid"),
            servers=_string(body, "servers") or None,
            max_line=_number(body, "max_line") or 64 << 20,
            grace=float(_number(body, "grace")),
            code=_string(body, "code"),
        )
    if body.get("tabane") == "refused":
        texts = body.get("message")
        known = {str(k): str(v) for k, v in texts.items()} if isinstance(texts, dict) else {}
        return HelloRefused(_string(body, "code"), known)
    raise InvalidHello("neither welcome nor refused")


def supersedes(one: VersionedProcess, hub: VersionedProcess, on_disk: str) -> bool:
    """Return whether a process of another build may replace a hub.

    A later release replaces an earlier one. Within a release, a commit replaces another commit of the same
    checkout if the checkout has it now (``on_disk``, a build's name), since the next hub runs that code. So
    two checkouts that are used in turn do not replace each other's hub. Of several processes from one
    checkout, only those with the current code do.
    """
    if newer(one.version, hub.version) or newer(hub.version, one.version):
        return newer(one.version, hub.version)
    ours, theirs = commit_in(one.version), commit_in(hub.version)
    if not (ours and theirs and one.code and one.code == hub.code):
        return False
    return ours != theirs and ours == commit_in(on_disk)


def commit_in(name: str) -> str:
    """Return the commit in the name of a build (``g84d86c5``); empty if it names none."""
    return name.partition("+")[2]


def _members(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_HELLO:
        raise InvalidHello("too long")
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidHello(str(error)) from None
    if not isinstance(body, dict):
        raise InvalidHello("not an object")
    return body


def _string(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidHello(f"{key} is not a string")
    return value


def _number(body: dict[str, Any], key: str) -> int:
    value = body.get(key, 0)
    if not isinstance(value, int | float):
        raise InvalidHello(f"{key} is not a number")
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise InvalidHello(f"{key} is not a number") from None
