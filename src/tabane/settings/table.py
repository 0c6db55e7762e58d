"""The settings as one table: what exists, what it means, its default and its limits.

The fields of :class:`Settings` are the only definition. Environment names, flags, `tabane status
--settings`, docs/settings.md and the tests are made of it.
"""

# ruff: noqa: RUF009  (the calls make dataclass fields with their help, which is what a table is)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from tabane.messages import Message, say

Kind = Literal["path", "choice", "switch", "whole", "number", "bytes", "text", "list"]
Mode = Literal["search", "light", "full"]
LogLevel = Literal["trace", "debug", "info", "warning", "error", "silent"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Option:
    """What is known of a setting besides its value.

    ``default`` is the value itself, or for a path the sentence that says where it lies. ``also`` is a
    further environment variable that is understood, of lower rank. A setting that is not ``in_file``
    can be given by flag and environment alone.
    """

    kind: Kind
    default: Any
    help: Message
    unit: Message | None = None
    lowest: float = 0
    highest: float = 0
    choices: tuple[str, ...] = ()
    in_file: bool = True
    also: str = ""
    name: str = ""

    @property
    def environment(self) -> str:
        return f"TABANE_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value came from. ``where`` is the flag, the variable, or file:line; empty for a default."""

    kind: Literal["flag", "environment", "file", "default"]
    where: str = ""


@dataclass(frozen=True, slots=True)
class Explained:
    """One setting as `tabane status --settings` shows it."""

    name: str
    value: Any
    source: Source
    help: Message
    unit: Message | None


def _path(default: Message, help: Message, *, in_file: bool = True) -> Any:
    return field(metadata={"option": Option("path", default, help, in_file=in_file)})


def _choice(default: str, choices: tuple[str, ...], help: Message, *, also: str = "") -> Any:
    option = Option("choice", default, help, choices=choices, also=also)
    return field(default=default, metadata={"option": option})


def _switch(default: bool, help: Message) -> Any:
    return field(default=default, metadata={"option": Option("switch", default, help)})


def _text(default: str, help: Message) -> Any:
    return field(default=default, metadata={"option": Option("text", default, help)})


def _list(help: Message) -> Any:
    return field(default=(), metadata={"option": Option("list", (), help)})


def _limited(kind: Kind, default: float, lowest: float, highest: float, unit: Message, help: Message) -> Any:
    option = Option(kind, default, help, unit, lowest, highest)
    return field(default=default, metadata={"option": option})


def _whole(default: int, lowest: int, highest: int, unit: Message, help: Message) -> Any:
    return _limited("whole", default, lowest, highest, unit, help)


def _seconds(default: float, lowest: float, highest: float, help: Message) -> Any:
    return _limited("number", default, lowest, highest, say("seconds"), help)


def _bytes(default: int, lowest: int, highest: int, help: Message) -> Any:
    return _limited("bytes", default, lowest, highest, say("bytes"), help)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, resolved: paths are absolute, numbers within their limits.

    Made by :func:`tabane.settings.load_settings`. ``sources`` says of each field where its value
    came from; ``warnings`` are unknown keys and the like, to be logged when a log exists.
    """

    home: Path = _path(
        say("the platform's data folder"),
        say(
            "Folder of Tabane's data, logs and socket, readable by its owner alone. Not in tabane.toml, "
            "since an assistant's connection has to find it without reading files."
        ),
        in_file=False,
    )
    config: Path = _path(
        say("tabane.toml in the platform's configuration folder"),
        say("The settings file."),
        in_file=False,
    )
    servers: Path = _path(
        say("mcp-servers.json beside tabane.toml"),
        say("The file that names the MCP servers."),
    )
    mode: Mode = _choice(
        "search",
        ("search", "light", "full"),
        say(
            "How tools are shown to an assistant that does not say: search lists a few tools that find "
            "the others, light lists all without their schemas, full lists all whole."
        ),
    )
    lang: Literal["auto", "ja", "en"] = _choice(
        "auto",
        ("auto", "ja", "en"),
        say("Language of messages; auto follows the locale of the program that asks."),
    )
    log_level: LogLevel = _choice(
        "info",
        ("trace", "debug", "info", "warning", "error", "silent"),
        say("The least severe entries that are written to the log. LOG_LEVEL is understood too."),
        also="LOG_LEVEL",
    )
    log_size: int = _bytes(10 * MIB, 64 * KIB, GIB, say("Size of a log file at which the next one is begun."))
    log_files: int = _whole(5, 1, 100, say("files"), say("Log files kept, the current one included."))
    start_servers: Literal["on_demand", "at_start"] = _choice(
        "on_demand",
        ("on_demand", "at_start"),
        say("When MCP servers are started: when first needed, or together with the hub."),
    )
    list_wait: float = _seconds(
        2, 0, 60, say("How long a search for tools waits for servers that never listed theirs.")
    )
    idle_end: float = _limited(
        "number",
        30,
        0,
        10_080,
        say("minutes"),
        say("A hub started by an assistant ends after this time without any; 0 is never."),
    )
    grace: float = _seconds(
        10, 0, 600, say("How long calls in flight may take to finish when the hub is stopped.")
    )
    health_interval: float = _seconds(60, 0.1, 86_400, say("Time between two health checks of a server."))
    restart_first: float = _seconds(
        1, 0.01, 3_600, say("Wait before a server that died is started again; doubles with each failure.")
    )
    restart_max: float = _seconds(30, 0.01, 3_600, say("The longest wait before a server is started again."))
    circuit_failures: int = _whole(
        5,
        1,
        1_000,
        say("failures"),
        say("Failures in a row after which calls to a server are refused at once."),
    )
    circuit_wait: float = _seconds(
        60, 0.1, 86_400, say("How long calls are refused before the server is tried once more.")
    )
    start_timeout: float = _seconds(
        60, 0.1, 3_600, say("How long a server may take from its start to its first answer.")
    )
    probe_timeout: float = _seconds(
        5,
        0.1,
        60,
        say("How long to wait for an answer in one revision of the protocol before trying another."),
    )
    queue_length: int = _whole(
        1_000, 1, 100_000, say("calls"), say("Calls that may wait for one server; more are refused.")
    )
    result_tokens: int = _whole(
        25_000,
        1_000,
        1_000_000,
        say("tokens"),
        say(
            "Text of a tool's result, at four bytes a token, above which call_tool and call_readonly_tool "
            "give it in parts."
        ),
    )
    max_line: int = _bytes(
        64 * MIB, 64 * KIB, GIB, say("The longest message accepted, whatever way it comes.")
    )
    outbox: int = _bytes(
        64 * MIB,
        64 * KIB,
        4 * GIB,
        say("How much may wait for a client that reads too slowly before it is disconnected."),
    )
    max_sessions: int = _whole(
        256, 1, 10_000, say("sessions"), say("Clients that may be connected at the same time.")
    )
    http: bool = _switch(
        True,
        say(
            "Serve MCP over HTTP too, for clients that cannot start a command. A hub within an assistant's "
            "client (tabane mcp --standalone) does so only where this is said."
        ),
    )
    host: str = _text(
        "127.0.0.1", say("The address that HTTP is served at: one that this machine alone can reach.")
    )
    port: int = _whole(8765, 0, 65_535, say("port"), say("The port that HTTP is served at; 0 is a free one."))
    http_token: bool = _switch(
        True,
        say(
            "Ask clients over HTTP for the token in the file token of TABANE_HOME. Without, every program "
            "and every user of this machine may use the hub."
        ),
    )
    origins: tuple[str, ...] = _list(
        say(
            "Origins of web pages that may use the hub from a browser, such as https://app.example.com, "
            "besides those of this machine."
        )
    )
    http_sessions: int = _whole(
        4096,
        1,
        100_000,
        say("sessions"),
        say(
            "Sessions of clients over HTTP at the same time. A new one takes the place of the one that was "
            "idle longest; where none is idle, it is refused."
        ),
    )
    http_idle: float = _limited(
        "number",
        30,
        0.001,
        10_080,
        say("minutes"),
        say("A session over HTTP ends after this time without a request, a call or an open stream."),
    )
    keyring: bool = _switch(
        False,
        say(
            'Also look for variables of the servers file in the system\'s keyring (service "tabane"); '
            "needs the Python package keyring."
        ),
    )
    sources: Mapping[str, Source] = field(default_factory=dict, repr=False, compare=False)
    warnings: tuple[Message, ...] = field(default=(), repr=False, compare=False)

    def explain(self) -> tuple[Explained, ...]:
        """Every setting with its value and where that came from, in the order of the table."""
        default = Source("default")
        return tuple(
            Explained(o.name, getattr(self, o.name), self.sources.get(o.name, default), o.help, o.unit)
            for o in OPTIONS
        )

    def as_flags(self) -> tuple[str, ...]:
        """The flags that were given, as arguments of a new command: a daemon is started with them."""
        given = (o for o in OPTIONS if o.name in self.sources and self.sources[o.name].kind == "flag")
        return tuple(_argument(option, getattr(self, option.name)) for option in given)


def _argument(option: Option, value: object) -> str:
    if option.kind == "switch":
        return option.flag if value else option.flag.replace("--", "--no-", 1)
    if isinstance(value, tuple):
        value = ",".join(value)
    return f"{option.flag}={value}"


OPTIONS: tuple[Option, ...] = tuple(
    replace(entry.metadata["option"], name=entry.name) for entry in fields(Settings) if entry.metadata
)
