"""Keys of a server in the servers file, and their allowed values; "sandbox" and "oauth" become objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs

from tabane.messages import Message, say
from tabane.servers.labels import LABELS_BY_NAME, NO_CHANGE, LabelChange, label_change
from tabane.servers.tool_overrides import read_overrides
from tabane.text.lazy_patterns import lazy_pattern
from tabane.text.nearest_names import nearest


class InvalidKeyValue(ValueError):
    """A value that its key does not allow: what is allowed, and the position inside the value."""

    def __init__(self, allowed: Message, inside: str = "") -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.inside = inside


def is_plain(value: str) -> bool:
    """Return whether a text can be passed to a process: no NUL, no lone surrogate."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


Preset = Literal["files", "network", "none"]
PRESETS: tuple[Preset, ...] = ("files", "network", "none")

Network = Literal["on", "off", "hosts"]

MOST_PATHS = 200
MOST_HOSTS = 200
LEAST_MEMORY = 16 << 20
MOST_MEMORY = 1 << 44
MOST_SECONDS = 31_536_000
MOST_PROCESSES = 100_000

_LONGEST_SANDBOX_TEXT = 4_096
_HOST = lazy_pattern(
    r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?\.?|\[[0-9a-f:.]{2,45}\]", re.IGNORECASE
)
_SIZE = lazy_pattern(r"(\d{1,9}(?:\.\d{1,3})?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class SandboxProfile(Struct, frozen=True):
    """The permissions of the process of a server, as the user wrote them.

    ``writes`` are the folders and files that it may change, besides its own folder for temporary files.
    ``reads`` are those that it may read besides the system's; None: all but the protected ones. ``hides`` are
    further protected ones. ``hosts`` are names that it may connect to if ``network`` is ``hosts``: a name,
    ``*.name`` or an address, with ``:port`` if only that port. ``memory`` is in bytes and ``cpu`` in seconds
    of CPU time. ``processes`` are processes and threads at the same time. ``sockets``: it may connect to Unix
    sockets. A limit that is 0 is not set.
    """

    preset: Preset = "files"
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    hides: tuple[str, ...] = ()
    network: Network = "off"
    hosts: tuple[str, ...] = ()
    memory: int = 0
    cpu: int = 0
    processes: int = 0
    sockets: bool = False

    def texts(self) -> list[str]:
        """Return the paths, in which variables are expanded: writes, reads and hides."""
        return [*self.writes, *(self.reads or ()), *self.hides]

    def with_texts(self, texts: list[str]) -> SandboxProfile:
        """Return the same profile with other paths, given in the order of :meth:`texts`."""
        first, second = len(self.writes), len(self.writes) + len(self.reads or ())
        reads = None if self.reads is None else tuple(texts[first:second])
        return structs.replace(self, writes=tuple(texts[:first]), reads=reads, hides=tuple(texts[second:]))


def sandbox(value: object) -> SandboxProfile | None:
    """Return the profile of the key "sandbox"; None if the server runs without a cage."""
    if isinstance(value, bool):
        return SandboxProfile() if value else None
    if isinstance(value, str):
        return _of_preset(_preset("", value))
    if not isinstance(value, dict):
        raise InvalidKeyValue(say('"files", "network", "none", or an object such as {"write": ["~/notes"]}'))
    if "filesystem" in value or isinstance(value.get("network"), dict):
        return _elsewhere(value)
    profile = _of_preset(_preset(".preset", value.get("preset") or "files"))
    found: dict[str, Any] = {}
    for key, given in value.items():
        if key not in _SANDBOX_CHECKS:
            raise InvalidKeyValue(say("an object with {keys}", keys=", ".join(_SANDBOX_CHECKS)), f".{key}")
        if given is not None and key != "preset":
            found |= _SANDBOX_CHECKS[key](f".{key}", given)
    if profile is None and found:
        raise InvalidKeyValue(say("files or network beside other members"), ".preset")
    return profile and structs.replace(profile, **found)


def sandbox_of_editor(root: object) -> SandboxProfile:
    """Return the profile of a server with VS Code's ``sandboxEnabled``: ``root`` is the file's "sandbox"."""
    return _elsewhere(root if isinstance(root, dict) else {})


def _elsewhere(value: Mapping[str, Any]) -> SandboxProfile:
    """Return the profile that VS Code's object describes: ``filesystem`` and ``network``."""
    files, network = value.get("filesystem", {}), value.get("network", {})
    if not isinstance(files, dict):
        raise InvalidKeyValue(say("an object with allowWrite and denyRead"), ".filesystem")
    if not isinstance(network, dict):
        raise InvalidKeyValue(say("an object with allowedDomains"), ".network")
    hosts = _hosts(".network.allowedDomains", network.get("allowedDomains") or [])
    return SandboxProfile(
        writes=_paths(".filesystem.allowWrite", files.get("allowWrite") or []),
        hides=_paths(".filesystem.denyRead", files.get("denyRead") or []),
        network="hosts" if hosts else "off",
        hosts=hosts,
    )


def _of_preset(preset: Preset) -> SandboxProfile | None:
    if preset == "none":
        return None
    return SandboxProfile(preset=preset, network="on" if preset == "network" else "off")


def _preset(where: str, value: object) -> Preset:
    for preset in PRESETS:
        if value == preset:
            return preset
    raise InvalidKeyValue(say("one of {choices}", choices=", ".join(PRESETS)), where)


def _paths(where: str, value: object) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or len(paths) > MOST_PATHS:
        raise InvalidKeyValue(say("a list of at most {most} {most:path|paths}", most=MOST_PATHS), where)
    for index, path in enumerate(paths):
        if not isinstance(path, str) or not path or not is_plain(path) or len(path) > _LONGEST_SANDBOX_TEXT:
            raise InvalidKeyValue(say("a path in quotes"), f"{where}[{index}]")
    return tuple(dict.fromkeys(paths))


def _hosts(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST_HOSTS:
        raise InvalidKeyValue(say("a list of at most {most} {most:host|hosts}", most=MOST_HOSTS), where)
    for index, host in enumerate(value):
        if not isinstance(host, str) or not _is_host(host):
            raise InvalidKeyValue(
                say("a host such as api.example.com, *.example.com or example.com:443"), f"{where}[{index}]"
            )
    return tuple(dict.fromkeys(host.lower().replace(".:", ":").rstrip(".") for host in value))


def _is_host(text: str) -> bool:
    name, colon, port = text.rpartition(":")
    if colon and not text.endswith("]") and not port.isdigit():
        return False
    if not colon or text.endswith("]"):
        return _HOST.fullmatch(text) is not None
    return _HOST.fullmatch(name) is not None and port.isascii() and 0 < int(port) < 65_536


def _network(where: str, value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"network": "on" if value else "off"}
    if isinstance(value, list):
        hosts = _hosts(where, value)
        return {"network": "hosts" if hosts else "off", "hosts": hosts}
    raise InvalidKeyValue(say("true, false, or a list of hosts"), where)


def _memory(where: str, value: object) -> dict[str, Any]:
    size: float = -1
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = float(match[1]) * _UNITS[match[2].lower()]
    if LEAST_MEMORY <= size <= MOST_MEMORY:
        return {"memory": int(size)}
    raise InvalidKeyValue(say('a size of at least 16 MB, such as "512M" or "2G"'), where)


def _whole(field: str, most: int) -> Callable[[str, object], dict[str, Any]]:
    def check(where: str, value: object) -> dict[str, Any]:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return {field: value}
        raise InvalidKeyValue(say("a whole number from {lowest} to {highest}", lowest=1, highest=most), where)

    return check


def _sockets(where: str, value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"sockets": value}
    raise InvalidKeyValue(say("true or false"), where)


_SANDBOX_CHECKS: Mapping[str, Callable[[str, Any], dict[str, Any]]] = {
    "preset": lambda where, value: {},
    "write": lambda where, value: {"writes": _paths(where, value)},
    "read": lambda where, value: {"reads": _paths(where, value)},
    "hide": lambda where, value: {"hides": _paths(where, value)},
    "network": _network,
    "memory": _memory,
    "cpu": _whole("cpu", MOST_SECONDS),
    "processes": _whole("processes", MOST_PROCESSES),
    "unixSockets": _sockets,
}


Grant = Literal["authorization_code", "client_credentials", "device_code"]
GRANTS: tuple[Grant, ...] = ("authorization_code", "client_credentials", "device_code")

TEXTS = (
    *("clientId", "clientSecret", "clientMetadataUrl", "resource", "audience", "issuer"),
    *("privateKey", "keyId", "algorithm"),
)
"""Members that are texts, in which variables are expanded."""

_LONGEST_OAUTH_TEXT = 16_384
_MOST_SCOPES = 100


class OAuthOptions(Struct, frozen=True):
    """The login at a server, as the user configured it. An empty text is one that is not given.

    ``asked``: the servers file says that the server needs a login. ``private_key`` is a PEM text, or the path
    of a PEM file. ``redirect_port`` is the port of this computer to which the browser returns; 0 for any.
    """

    asked: bool = True
    client_id: str = ""
    client_secret: str = ""
    client_metadata_url: str = ""
    scopes: tuple[str, ...] | None = None
    grant: Grant = "authorization_code"
    resource: str = ""
    audience: str = ""
    redirect_port: int = 0
    issuer: str = ""
    private_key: str = ""
    key_id: str = ""
    algorithm: str = ""

    def __repr__(self) -> str:
        return f"OAuthOptions(grant={self.grant!r}, issuer={self.issuer!r})"

    def texts(self) -> dict[str, str]:
        """Return the texts in which variables are expanded, by their keys."""
        return {key: getattr(self, _OAUTH_FIELDS[key]) for key in TEXTS}

    def with_texts(self, texts: Mapping[str, str]) -> OAuthOptions:
        """Return the same options with other texts, given by their keys."""
        changed: dict[str, Any] = {_OAUTH_FIELDS[key]: text for key, text in texts.items()}
        return structs.replace(self, **changed)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that are never shown."""
        return tuple(text for text in (self.client_secret, self.private_key) if text)


def oauth(value: object) -> OAuthOptions | Literal[False]:
    """Return the options of the key "oauth"; False if the server is used without a login."""
    if isinstance(value, bool):
        return OAuthOptions() if value else False
    if not isinstance(value, dict):
        raise InvalidKeyValue(say('true, false, or an object such as {"clientId": "…"}'))
    found: dict[str, Any] = {}
    for key, given in value.items():
        check = _OAUTH_CHECKS.get(key)
        if check is None:
            raise InvalidKeyValue(say("an object with {keys}", keys=", ".join(_OAUTH_CHECKS)), f".{key}")
        if given is not None:
            found[_OAUTH_FIELDS[key]] = check(key, given)
    options = OAuthOptions(**found)
    if options.grant == "client_credentials" and not options.client_id:
        raise InvalidKeyValue(say("an object with clientId, because of its grant"), ".clientId")
    if options.grant == "client_credentials" and not (options.client_secret or options.private_key):
        raise InvalidKeyValue(
            say("an object with clientSecret or privateKey, because of its grant"), ".clientSecret"
        )
    if (options.client_secret or options.private_key) and not options.client_id:
        raise InvalidKeyValue(say("an object with clientId beside the secret"), ".clientId")
    return options


def _text(key: str, value: object) -> str:
    if isinstance(value, str) and is_plain(value) and len(value) <= _LONGEST_OAUTH_TEXT:
        return value
    raise InvalidKeyValue(say("a text in quotes"), f".{key}")


def _scopes(key: str, value: object) -> tuple[str, ...]:
    """Return scopes, written as a list or as one text with spaces."""
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) > _MOST_SCOPES or not all(map(is_scope, parts)):
        raise InvalidKeyValue(say("a list of scopes"), f".{key}")
    return tuple(dict.fromkeys(parts))


def is_scope(value: object) -> bool:
    """Return whether a value is a scope (RFC 6749, 3.3): printable ASCII without space, quote, backslash."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= 1_000
        and all("!" <= character <= "~" and character not in '"\\' for character in value)
    )


def _grant(key: str, value: object) -> Grant:
    for grant in GRANTS:
        if value == grant:
            return grant
    raise InvalidKeyValue(say("one of {choices}", choices=", ".join(GRANTS)), f".{key}")


def _port(key: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1_024 <= value <= 65_535:
        return value
    raise InvalidKeyValue(
        say("a whole number from {lowest} to {highest}", lowest=1_024, highest=65_535), f".{key}"
    )


_OAUTH_CHECKS: Mapping[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(TEXTS, _text),
    "scopes": _scopes,
    "grant": _grant,
    "redirectPort": _port,
}

_OAUTH_FIELDS = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "clientMetadataUrl": "client_metadata_url",
    "scopes": "scopes",
    "grant": "grant",
    "resource": "resource",
    "audience": "audience",
    "redirectPort": "redirect_port",
    "issuer": "issuer",
    "privateKey": "private_key",
    "keyId": "key_id",
    "algorithm": "algorithm",
}

Checked = TypeVar("Checked")

TRANSPORTS = ("stdio", "http", "sse")
LONGEST_TIMEOUT = 86_400_000.0
MOST_CALLS = 1_024
LEAST_TOKENS = 1_000
MOST_TOKENS = 1_000_000


def text(value: object) -> str:
    """Return a text that can be passed to a process: no NUL, no lone surrogate."""
    if isinstance(value, str) and is_plain(value):
        return value
    raise InvalidKeyValue(say("a text in quotes"))


def texts(value: object) -> tuple[str, ...]:
    """Return a list of texts. Raises InvalidKeyValue."""
    if not isinstance(value, list):
        raise InvalidKeyValue(say("a list of texts"))
    return tuple(_inside(f"[{index}]", text, part) for index, part in enumerate(value))


def text_or_texts(value: object) -> tuple[str, ...]:
    """Return a list of texts, which may be given as a text if it is only one."""
    return (text(value),) if isinstance(value, str) else texts(value)


def texts_by_name(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidKeyValue(say("an object of texts"))
    for name in value:
        if not name or "=" in name or not is_plain(name):
            raise InvalidKeyValue(say("an object whose names are not empty and hold no ="))
    return {name: _inside(f".{name}", text, part) for name, part in value.items()}


TLS_FILES = ("ca", "cert", "key")
"""Keys of the object "tls" that name files."""


def tls(value: object) -> Mapping[str, Any]:
    """Return the object "tls": files by name, and whether the server's certificate is verified."""
    if not isinstance(value, dict):
        raise InvalidKeyValue(say("an object with ca, cert, key or verify"))
    for name in value:
        if name not in (*TLS_FILES, "verify"):
            raise InvalidKeyValue(say("an object with ca, cert, key or verify"), f".{name}")
    found: dict[str, Any] = {
        name: _inside(f".{name}", text, value[name]) for name in TLS_FILES if name in value
    }
    if bool(found.get("cert")) < bool(found.get("key")):
        raise InvalidKeyValue(say("a file beside cert, not alone"), ".key")
    verify = value.get("verify", True)
    if not isinstance(verify, bool):
        raise InvalidKeyValue(say("true or false"), ".verify")
    return {**found, "verify": verify}


MOST_HINTS = 50
"""Texts of one list of hints."""


class ToolHints(Struct, frozen=True):
    """A person's words about the tools that ``pattern`` matches, for searching: never shown to an assistant.

    ``labels`` are for the flow policy.
    ``unknown`` are members of the object that have no meaning.
    """

    pattern: str
    description: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    labels: LabelChange = NO_CHANGE
    unknown: tuple[str, ...] = ()

    def fits(self, name: str) -> bool:
        """Return whether it is about the tool that its server calls by that name."""
        return fnmatchcase(name, self.pattern)


def hints(value: object) -> tuple[str, ...]:
    """Return a list of texts that are searched, without empty ones."""
    found = texts(value)
    if len(found) > MOST_HINTS:
        raise InvalidKeyValue(say("a list of at most {most} {most:text|texts}", most=MOST_HINTS))
    return tuple(text for text in found if text.strip())


def flow_labels(value: object) -> LabelChange:
    """Return the list "labels": names of flow labels, each with - in front to remove it."""
    try:
        return label_change(texts(value))
    except KeyError:
        names = ", ".join(LABELS_BY_NAME)
        raise InvalidKeyValue(
            say("a list of {names}, each with - in front to remove it", names=names)
        ) from None


def tool_hints(value: object) -> tuple[ToolHints, ...]:
    """Return the object "tools"."""
    if not isinstance(value, dict):
        raise InvalidKeyValue(say("an object of the server's own names of tools"))
    return tuple(_hints_of(name, given) for name, given in value.items())


def _hints_of(pattern: str, given: object) -> ToolHints:
    if not isinstance(given, dict):
        raise InvalidKeyValue(
            say("an object with description, tags, keywords, examples or labels"), f".{pattern}"
        )
    found = {
        key: _inside(f".{pattern}.{key}", check, given[key])
        for key, check in _HINTS.items()
        if given.get(key) is not None
    }
    return ToolHints(pattern, unknown=tuple(key for key in given if key not in _HINTS), **found)


_HINTS: Mapping[str, Callable[[object], Any]] = {
    "description": text,
    "tags": hints,
    "keywords": hints,
    "examples": hints,
    "labels": flow_labels,
}


def switch(value: object) -> bool:
    """Return true or false. Raises InvalidKeyValue."""
    if isinstance(value, bool):
        return value
    raise InvalidKeyValue(say("true or false"))


def timeout(value: object) -> float:
    """Return a timeout in seconds. Raises InvalidKeyValue."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST_TIMEOUT:
        return float(value)
    raise InvalidKeyValue(say("a number of seconds greater than 0"))


def whole(lowest: int, highest: int) -> Callable[[object], int]:
    """Return a check for a whole number between these, both included."""

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        raise InvalidKeyValue(
            say("a whole number from {lowest} to {highest}", lowest=lowest, highest=highest)
        )

    return check


def one_of(*choices: str) -> Callable[[object], str]:
    """Return a check for one of these texts."""

    def check(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise InvalidKeyValue(say("one of {choices}", choices=", ".join(choices)))

    return check


def anything(value: object) -> object:
    return value


KEYS: Mapping[str, Callable[[object], Any]] = {
    "type": one_of(*TRANSPORTS),
    "command": text,
    "args": texts,
    "env": texts_by_name,
    "inherit": texts,
    "cwd": text,
    "url": text,
    "headers": texts_by_name,
    "ca": text,
    "tls": tls,
    "proxy": text,
    "enabled": switch,
    "disabled": switch,
    "description": text,
    "tags": texts,
    "category": text,
    "keywords": hints,
    "examples": hints,
    "labels": flow_labels,
    "tools": tool_hints,
    "overrides": read_overrides,
    "pin": text_or_texts,
    "allow": texts,
    "deny": texts,
    "confirm": text_or_texts,
    "prefix": text,
    "share": one_of("hub", "roots", "client"),
    "run": one_of("hub", "group"),
    "changes": one_of("warn", "hold"),
    "timeout": timeout,
    "maxConcurrency": whole(1, MOST_CALLS),
    "maxResultTokens": whole(LEAST_TOKENS, MOST_TOKENS),
    "credentials": one_of("off", "warn", "redact"),
    "cache": anything,
    "sandbox": sandbox,
    "sandboxEnabled": switch,
    "image": text,
    "oauth": oauth,
}


def unknown_key(key: str, inside: str = "") -> Message:
    """Return the warning about a key that is none of ours, with the one that may have been meant.

    ``inside`` are the keys that it is in, such as ``tools.search.``.
    """
    near = nearest(key, _HINTS if inside else KEYS)
    key = inside + key
    if not near:
        return say('the key "{key}" is unknown and is ignored.', key=key)
    return say(
        'the key "{key}" is unknown and is ignored. Did you mean {near}?', key=key, near=", ".join(near)
    )


def _inside(where: str, check: Callable[[object], Checked], value: object) -> Checked:
    try:
        return check(value)
    except InvalidKeyValue as wrong:
        raise InvalidKeyValue(wrong.allowed, where + wrong.inside) from None
