"""One upstream server as the user configured it, and checks of its URL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field, structs

from tabane.messages import Message, say
from tabane.net.target import Target, is_loopback
from tabane.servers.labels import NO_CHANGE, LabelChange
from tabane.servers.server_keys import OAuthOptions, SandboxProfile, ToolHints
from tabane.servers.tool_overrides import ToolOverride
from tabane.servers.variables import with_folder

Transport = Literal["stdio", "http", "sse"]
Share = Literal["hub", "roots", "client"]
Run = Literal["hub", "group"]

TIMEOUT = 30.0
"""Seconds of a call, if the servers file says nothing else."""

MAX_CONCURRENCY = 64
"""Calls in flight, if the servers file says nothing else."""


class Server(Struct, frozen=True):
    """One upstream server of mcp-servers.json, variables expanded.

    ``disabled`` is why it may not be started (by the user, a missing variable, a key that is not supported
    yet …); None means it may. ``switched_off``: the user did that with a key. ``secrets`` are the values that
    came from variables or have a name such as API_KEY. They are redacted wherever text about this server is
    shown or logged. ``fingerprint`` is a hash of all that decides what the server lists (command, arguments,
    environment, url) as it is written, so never of a secret. ``timeout`` is in seconds. If
    ``max_result_tokens`` is None, the setting ``result_tokens`` applies; if ``credentials`` is None,
    ``credentials_in_calls``.

    ``inherit`` are patterns of variables of the hub that the process gets besides the usual ones.

    ``description``, ``tags``, ``category``, ``keywords``, ``examples`` (of queries) and ``hints`` (about
    single tools) are the user's words for searching. ``labels`` are those of the flow policy that the user
    gives all of its tools, or removes. ``overrides`` replace parts of single tools.

    ``confirm`` are globs of tools whose calls a person approves, each on its own.

    ``ca`` is the path of a file of authorities that are trusted besides the system's. ``cert`` and ``key``
    are the files of the certificate that the server is shown. ``verify`` is whether its own certificate is
    verified. ``proxy`` is the URL of its proxy, if not the environment's. ``transport_given`` is whether the
    file contains ``type``; if not, a URL may be of either kind. ``oauth`` are the options of a login there;
    False if there is to be none, None if the server decides.

    ``sandbox`` is the cage that its process runs in; None for none. ``image`` is that of the container that
    it runs in; empty for none. ``cwd_given`` is whether the file contains ``cwd``.

    ``changes`` is what happens to definitions that change (``warn`` or ``hold``); empty for what the settings
    say.

    ``project`` is the folder of the project whose file defines the server; empty for one of the servers file.
    It is visible only to clients that work in that folder.

    ``needs_folder`` is True if the client's folder must still be put into the texts: such a server is started
    as :meth:`in_folder` returns it. ``share_given`` is whether the file contains ``share``; if not, the
    server's requests to its client decide. ``roots`` are the folders (file URIs) of the clients that an
    instance serves; None if it serves all. ``capabilities`` (a JSON object) are those of the one client that
    an instance serves. ``run`` is ``group`` if one hub of a group runs the server for all of them.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    inherit: tuple[str, ...] = ()
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True
    proxy: str = ""
    transport_given: bool = False
    oauth: OAuthOptions | bool | None = None
    sandbox: SandboxProfile | None = None
    image: str = ""
    cwd_given: bool = False
    description: str = ""
    tags: tuple[str, ...] = ()
    category: str = ""
    keywords: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    hints: tuple[ToolHints, ...] = ()
    labels: LabelChange = NO_CHANGE
    overrides: tuple[ToolOverride, ...] = ()
    pin: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    prefix: str | None = None
    share: Share = "hub"
    share_given: bool = False
    run: Run = "hub"
    timeout: float = TIMEOUT
    max_concurrency: int = MAX_CONCURRENCY
    max_result_tokens: int | None = None
    credentials: Literal["off", "warn", "redact"] | None = None
    disabled: Message | None = None
    switched_off: bool = False
    secrets: tuple[str, ...] = ()
    fingerprint: str = ""
    needs_folder: bool = False
    roots: tuple[str, ...] | None = None
    capabilities: bytes | None = None
    changes: str = ""
    project: str = ""

    def __repr__(self) -> str:
        return f"Server({self.name!r})"

    @property
    def namespace(self) -> str:
        """The text before ``__`` in the names of its tools; empty for none."""
        return self.name if self.prefix is None else self.prefix

    @property
    def sandboxed(self) -> bool:
        """Whether its process runs in a cage or in a container."""
        return self.sandbox is not None or bool(self.image)

    @property
    def may_login(self) -> bool:
        """Whether Tabane may log in there: a server at a URL, without credentials set by hand."""
        if self.transport == "stdio" or self.oauth is False:
            return False
        has_user = "@" in self.url.partition("://")[2].partition("/")[0]
        return not has_user and not any(name.lower() == "authorization" for name in self.headers)

    @property
    def login_options(self) -> OAuthOptions:
        """The options of a login; the default ones if the servers file says nothing about it."""
        return self.oauth if isinstance(self.oauth, OAuthOptions) else _NOT_ASKED

    def in_folder(self, folder: str) -> Server:
        """Return this server for clients that work in ``folder`` (an absolute path), without placeholders."""
        if not self.needs_folder:
            return self
        return structs.replace(
            self,
            command=with_folder(self.command, folder),
            args=tuple(with_folder(text, folder) for text in self.args),
            env={name: with_folder(text, folder) for name, text in self.env.items()},
            cwd=None if self.cwd is None else with_folder(self.cwd, folder),
            url=with_folder(self.url, folder),
            headers={name: with_folder(text, folder) for name, text in self.headers.items()},
            ca=None if self.ca is None else with_folder(self.ca, folder),
            cert=None if self.cert is None else with_folder(self.cert, folder),
            key=None if self.key is None else with_folder(self.key, folder),
            proxy=with_folder(self.proxy, folder),
            sandbox=self.sandbox
            and self.sandbox.with_texts([with_folder(text, folder) for text in self.sandbox.texts()]),
            image=with_folder(self.image, folder),
            needs_folder=False,
        )

    def runs_like(self, other: Server) -> bool:
        """Return whether a process started for one also fits the other: only their policies may differ."""
        return all(getattr(self, name) == getattr(other, name) for name in _PROCESS)

    def with_policy_of(self, other: Server) -> Server:
        """Return this server with the same process and the policy of another configuration of it."""
        return structs.replace(other, **{name: getattr(self, name) for name in _PROCESS})


_PROCESS = (
    *("transport", "transport_given", "command", "args", "env", "inherit", "cwd", "url"),
    *("headers", "ca", "proxy"),
    *("cert", "key", "verify", "oauth"),
    *("sandbox", "image", "cwd_given"),
    *("share", "run", "needs_folder", "roots", "capabilities", "project"),
)


# -- URLs -------------------------------------------------------------------------------------------

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS = re.compile(r"[\r\n\0]")
_OURS = frozenset(
    ("connection", "content-length", "content-type", "accept", "transfer-encoding", "mcp-session-id")
)

_NOT_ASKED = OAuthOptions(asked=False)
_HUB_PORT = 8765


class ServerUrlFault(Struct, frozen=True):
    """A fault, and its key in the configuration."""

    key: str
    why: Message


def unusable(server: Server, values: Iterable[str]) -> ServerUrlFault | None:
    """Return why a server at a URL cannot be used, None if it can. ``values`` are those of its headers.

    The text contains no secrets.
    """
    if not is_web(server.url):
        return ServerUrlFault("url", say("its URL must start with http:// or https://."))
    if server.proxy and not is_web(server.proxy):
        return ServerUrlFault(
            "proxy",
            say("the proxy URL must start with http:// or https://; other proxies are not supported."),
        )
    for name, value in zip(server.headers, values, strict=True):
        if not _NAME.fullmatch(name):
            return ServerUrlFault("headers", say('"{name}" is not a valid header name.', name=name))
        if name.lower() in _OURS or name.lower().startswith("mcp-"):
            return ServerUrlFault("headers", say("the header {name} is set by Tabane.", name=name))
        if _BREAKS.search(value):
            why = say(
                "the header {name} has more than one line. Remove the line break; it may have been "
                "copied with the value.",
                name=name,
            )
            return ServerUrlFault("headers", why)
    return None


def is_web(url: str) -> bool:
    """Return whether a URL is an HTTP URL with a host."""
    from urllib.parse import urlsplit  # needed only for a server at a URL

    if _BREAKS.search(url) or " " in url.strip():
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def target_of(server: Server) -> Target:
    """Return where and how the HTTP client reaches a server at a URL."""
    return Target(
        server.name,
        server.url,
        server.max_concurrency,
        server.headers,
        server.proxy,
        server.ca,
        server.cert,
        server.key,
        server.verify,
    )


def exposes_secrets(server: Server) -> bool:
    """Return whether secrets are sent to a server over a network where others can read them."""
    from urllib.parse import urlsplit

    if server.transport == "stdio" or not is_web(server.url):
        return False
    parts = urlsplit(server.url)
    return parts.scheme == "http" and bool(server.secrets) and not is_loopback(parts.hostname or "")


def is_hub(url: str) -> bool:
    """Return whether a URL is that of a hub on this computer, at the default port."""
    from urllib.parse import urlsplit

    if not is_web(url):
        return False
    parts = urlsplit(url)
    own = parts.port == _HUB_PORT and is_loopback(parts.hostname or "")
    return own and (parts.path.rstrip("/") == "/mcp" or parts.path.startswith("/mcp/"))
