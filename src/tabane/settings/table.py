"""The table of all settings, with their meaning, defaults and limits.

The fields of :class:`Settings` are the only definition. Environment variables, flags, `tabane status
--settings`, docs/settings.md and the tests are derived from it.
"""

# ruff: noqa: RUF009  (the calls make dataclass fields with their help, which is what a table is)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from tabane.messages import Message, say
from tabane.settings import option
from tabane.settings.option import GIB, KIB, MIB, SettingOption

Mode = Literal["search", "light", "full"]
ModelLoader = Literal["auto", "onnx", "sentence-transformers"]
ModelPooling = Literal["auto", "mean", "cls", "last"]
LogLevel = Literal["trace", "debug", "info", "warning", "error", "silent"]


@dataclass(frozen=True, slots=True)
class SettingSource:
    """The source of a value. ``where`` is the flag, the variable, or file:line; empty for a default."""

    kind: Literal["flag", "environment", "file", "default"]
    where: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedSetting:
    """One setting in `tabane status --settings`."""

    name: str
    value: Any
    source: SettingSource
    help: Message
    unit: Message | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked: paths are absolute, and numbers within their limits.

    Made by :func:`tabane.settings.load_settings`. ``sources`` has the source of each value that is not the
    default. ``warnings`` are about unknown keys and the like. They are logged once there is a log.
    """

    home: Path = option.path(
        say("the platform's data folder"),
        say(
            "Folder of Tabane's data, logs and socket, readable by its owner alone. Not in tabane.toml, "
            "since an assistant's connection has to find it without reading files."
        ),
        in_file=False,
    )
    config: Path = option.path(
        say("tabane.toml in the platform's configuration folder"),
        say("The settings file."),
        in_file=False,
    )
    servers: Path = option.path(
        say("mcp-servers.json beside tabane.toml"),
        say("The file that names the MCP servers."),
    )
    mode: Mode = option.choice(
        "search",
        ("search", "light", "full"),
        say(
            "How tools are shown to an assistant that does not say: search lists a few tools that find "
            "the others, light lists all without their schemas, full lists all whole."
        ),
    )
    lang: Literal["auto", "ja", "en"] = option.choice(
        "auto",
        ("auto", "ja", "en"),
        say("Language of messages; auto follows the locale of the program that asks."),
    )
    log_level: LogLevel = option.choice(
        "info",
        ("trace", "debug", "info", "warning", "error", "silent"),
        say("The least severe entries that are written to the log. LOG_LEVEL is understood too."),
        also="LOG_LEVEL",
    )
    log_size: int = option.size(
        10 * MIB, 64 * KIB, GIB, say("Size of a log file at which the next one is begun.")
    )
    log_files: int = option.whole(5, 1, 100, say("files"), say("Log files kept, the current one included."))
    start_servers: Literal["on_demand", "at_start"] = option.choice(
        "on_demand",
        ("on_demand", "at_start"),
        say("When MCP servers are started: when first needed, or together with the hub."),
    )
    list_wait: float = option.seconds(
        2, 0, 60, say("How long a search for tools waits for servers that never listed theirs.")
    )
    idle_end: float = option.limited(
        "number",
        30,
        0,
        10_080,
        say("minutes"),
        say("A hub started by an assistant ends after this time without any; 0 is never."),
    )
    grace: float = option.seconds(
        10, 0, 600, say("How long calls in flight may take to finish when the hub is stopped.")
    )
    stuck_after: float = option.seconds(
        30,
        0,
        86_400,
        say(
            "How long the event loop of the hub may block. After that, the hub counts as stuck: it "
            "writes the stacks of its threads to its log folder and ends, so that another hub can "
            "start. Time during which the machine sleeps does not count. 0 turns this off."
        ),
    )
    health_interval: float = option.seconds(
        60, 0.1, 86_400, say("Time between two health checks of a server.")
    )
    restart_first: float = option.seconds(
        1, 0.01, 3_600, say("Wait before a server that died is started again; doubles with each failure.")
    )
    restart_max: float = option.seconds(
        30, 0.01, 3_600, say("The longest wait before a server is started again.")
    )
    circuit_failures: int = option.whole(
        5,
        1,
        1_000,
        say("failures"),
        say("Failures in a row after which calls to a server are refused at once."),
    )
    circuit_wait: float = option.seconds(
        60, 0.1, 86_400, say("How long calls are refused before the server is tried once more.")
    )
    start_timeout: float = option.seconds(
        60, 0.1, 3_600, say("How long a server may take from its start to its first answer.")
    )
    probe_timeout: float = option.seconds(
        5,
        0.1,
        60,
        say("How long to wait for an answer in one revision of the protocol before trying another."),
    )
    queue_length: int = option.whole(
        1_000, 1, 100_000, say("calls"), say("Calls that may wait for one server; more are refused.")
    )
    list_items: int = option.whole(
        5_000,
        1,
        100_000,
        say("items"),
        say(
            "Maximum number of items in one list of a server: tools, prompts, resources or templates."
            " If a list is longer, its first items are used, and tabane servers list says so."
        ),
    )
    list_size: int = option.size(
        8 * MIB, 64 * KIB, GIB, say("Maximum size of one list of a server, all its pages together.")
    )
    catalogue_size: int = option.size(
        16 * MIB, 64 * KIB, 4 * GIB, say("Maximum size of all lists of one server together.")
    )
    result_tokens: int = option.whole(
        25_000,
        1_000,
        1_000_000,
        say("tokens"),
        say(
            "Text of a tool's result, at four bytes a token, above which call_tool and call_readonly_tool "
            "give it in parts."
        ),
    )
    max_line: int = option.size(
        64 * MIB, 64 * KIB, GIB, say("The longest message accepted, whatever way it comes.")
    )
    outbox: int = option.size(
        64 * MIB,
        64 * KIB,
        4 * GIB,
        say(
            "How much data may wait for a client that reads slowly. Servers wait for the client "
            "first. If an answer still does not fit, only that answer fails, and the client stays "
            "connected."
        ),
    )
    max_sessions: int = option.whole(
        256, 1, 10_000, say("sessions"), say("Clients that may be connected at the same time.")
    )
    http: bool = option.switch(
        True,
        say(
            "Serve MCP over HTTP too, for clients that cannot start a command. A hub within an assistant's "
            "client (tabane mcp --standalone) does so only where this is said."
        ),
    )
    host: str = option.text(
        "127.0.0.1", say("The address that HTTP is served at: one that this machine alone can reach.")
    )
    port: int = option.whole(
        8765, 0, 65_535, say("port"), say("The port that HTTP is served at; 0 is a free one.")
    )
    http_token: bool = option.switch(
        True,
        say(
            "Ask clients over HTTP for the token in the file token of TABANE_HOME. Without, every program "
            "and every user of this machine may use the hub."
        ),
    )
    open_archive: bool = option.switch(
        True,
        say(
            "Answer questions about the archive over WebSocket and /rpc to programs that do not show the "
            "token, as the original clients of twilog. Everything else needs it in any case."
        ),
    )
    ping_interval: float = option.seconds(
        20,
        0.1,
        3_600,
        say("Time between two pings to a program on a WebSocket; who misses three of them is gone."),
    )
    origins: tuple[str, ...] = option.texts(
        say(
            "Origins of web pages that may use the hub from a browser, such as https://app.example.com or "
            "http://localhost:3000; http://localhost:* is any port. All other pages are refused."
        )
    )
    http_sessions: int = option.whole(
        4096,
        1,
        100_000,
        say("sessions"),
        say(
            "Sessions of clients over HTTP at the same time. A new one takes the place of the one that was "
            "idle longest; where none is idle, it is refused."
        ),
    )
    http_idle: float = option.limited(
        "number",
        30,
        0.001,
        10_080,
        say("minutes"),
        say("A session over HTTP ends after this time without a request, a call or an open stream."),
    )
    keyring: bool = option.switch(
        False,
        say(
            'Also look for variables of the servers file in the system\'s keyring (service "tabane"); '
            "needs the Python package keyring."
        ),
    )
    model: str = option.text(
        "auto",
        say(
            "The embedding model, by which texts are found by their meaning: auto (a small one for English "
            "and Japanese), none, its name at huggingface.co (org/name, or org/name@revision), or a folder "
            "that has it. With model_url, its name at that server."
        ),
    )
    model_url: str = option.text(
        "",
        say(
            "A server that speaks OpenAI's /v1/embeddings, such as http://127.0.0.1:11434/v1 of Ollama. "
            "What is embedded is sent there."
        ),
    )
    model_key: str = option.text(
        "",
        say(
            "The key of that server, as the name of a variable: ${NAME}, which is looked up in secrets.env, "
            "the keyring and the environment. Never the key itself."
        ),
    )
    model_loader: ModelLoader = option.choice(
        "auto",
        ("auto", "onnx", "sentence-transformers"),
        say("What runs the model: ONNX where the model can be run so, or the package sentence-transformers."),
    )
    model_quantisation: Literal["none", "int8"] = option.choice(
        "none",
        ("none", "int8"),
        say("int8 makes the weights small: two to three times as fast, and not quite the same vectors."),
    )
    model_pooling: ModelPooling = option.choice(
        "auto",
        ("auto", "mean", "cls", "last"),
        say("How the states of a text's tokens become its vector; auto is what the model was trained for."),
    )
    model_max_tokens: int = option.whole(
        0, 0, 1_000_000, say("tokens"), say("Where a text is cut; 0 is what the model takes, at most 2048.")
    )
    model_dimension: int = option.whole(
        0,
        0,
        65_536,
        say("components"),
        say("Keep the first components of a vector alone, for models trained so; 0 keeps all."),
    )
    model_query_prefix: str = option.text(
        "auto",
        say("What is put before a question; auto is what the model was trained with. \\n is a line break."),
    )
    model_document_prefix: str = option.text(
        "auto", say("What is put before a text that is to be found; written as model_query_prefix.")
    )
    model_offline: bool = option.switch(
        False, say("Fetch no model: use what is in the cache, as with HF_HUB_OFFLINE=1.")
    )
    model_threads: int = option.whole(
        0, 0, 256, say("threads"), say("Threads of a model; 0 is one for each core, at most four.")
    )
    model_batch_tokens: int = option.whole(
        1024,
        64,
        1_048_576,
        say("tokens"),
        say("Tokens that a model works at together: more need more memory, and are hardly faster."),
    )
    model_idle: float = option.limited(
        "number",
        10,
        0,
        10_080,
        say("minutes"),
        say("A model's process ends after this time without work, and is started again; 0 is never."),
    )
    reranker: str = option.text(
        "none",
        say(
            "A second model that reads the first hits of a search together with the question and orders them "
            "anew: none, auto (a small one for Japanese), its name at huggingface.co, or a folder."
        ),
    )
    embedding_cache: int = option.size(
        GIB,
        MIB,
        1024 * GIB,
        say(
            "How much is kept of what was embedded, so that the same text is not embedded twice. Those that "
            "were not used for longest go first. A change takes effect with the next start."
        ),
    )
    posts_zone: str = option.text(
        "",
        say(
            "The time zone that timestamps of posts mean where they name none, such as Asia/Tokyo or +09:00; "
            "empty is that of this machine. It counts for posts that are imported from then on, and for "
            "dates that are asked for."
        ),
    )
    posts_embeddings: Path | None = option.optional_path(
        say(
            "A folder of vectors of posts (embeddings of twilog): it is imported when the hub starts, with "
            "the twilog.csv that its meta.json names, unless that was done before and nothing has changed."
        )
    )
    posts_reasoning: Path | None = option.optional_path(
        say("The same for the reasoning of posts (batch/reasoning of twilog).")
    )
    posts_summary: Path | None = option.optional_path(
        say("The same for the summaries of posts (batch/summary of twilog).")
    )
    documents_roots: tuple[str, ...] = option.texts(
        say(
            "Folders, with all that is in them, from which an assistant may keep files as documents "
            "(put_file); none are allowed otherwise. What a person adds with tabane docs needs no leave."
        )
    )
    documents_size: int = option.size(
        10 * MIB, KIB, 12 * MIB, say("The longest text that is kept as one document.")
    )
    reader_allow: tuple[str, ...] = option.texts(
        say(
            "Hosts of private networks and of this machine that may be read all the same: names, addresses "
            "or networks, each with a port where that alone is meant, such as wiki.home or 127.0.0.1:3000."
        )
    )
    reader_robots: Literal["never", "assistants", "always"] = option.choice(
        "assistants",
        ("never", "assistants", "always"),
        say(
            "When a site's robots.txt decides whether a page is read: when an assistant asks, always, or "
            "never. What a person asks for by name is no crawl."
        ),
    )
    reader_size: int = option.size(
        20 * MIB, 64 * KIB, GIB, say("The largest page or file that is read, unpacked.")
    )
    reader_timeout: float = option.seconds(
        30, 1, 600, say("How long one request for a page may take, with all that it is redirected to.")
    )
    reader_fresh: float = option.limited(
        "number",
        15,
        0,
        10_080,
        say("minutes"),
        say("A page that was read is given again as it was for this time; then its site is asked."),
    )
    reader_cache: int = option.size(
        500 * MIB,
        MIB,
        1024 * GIB,
        say("How much is kept of the pages that were read. Those read longest ago go first."),
    )
    reader_tokens: int = option.whole(
        8_000,
        500,
        200_000,
        say("tokens"),
        say("How much of a page an assistant is given at once, where it does not say."),
    )
    reader_ca: Path | None = option.optional_path(
        say(
            "A file of certificates (PEM) that are trusted besides the system's, as of a company's own sites."
        )
    )
    reader_proxy: str = option.text(
        "",
        say(
            "A proxy through which pages are fetched, such as http://proxy:3128. It resolves the names then, "
            "so the guard against private addresses judges names and literal addresses alone."
        ),
    )
    reader_render: Literal["never", "auto", "unsandboxed"] = option.choice(
        "never",
        ("never", "auto", "unsandboxed"),
        say(
            "Whether a page that shows nothing without JavaScript is opened in an installed Chromium or "
            "Chrome: never; auto, within the browser's own sandbox alone; or unsandboxed too, for a hub that "
            "is confined as a whole."
        ),
    )
    reader_browser: str = option.text(
        "",
        say(
            "The browser that such pages are opened in, by its path or name; without one, the first Chromium "
            "or Chrome that is found."
        ),
    )
    sources: Mapping[str, SettingSource] = field(default_factory=dict, repr=False, compare=False)
    warnings: tuple[Message, ...] = field(default=(), repr=False, compare=False)

    def explain(self) -> tuple[ExplainedSetting, ...]:
        """Return every setting with its value and its source, in the order of the table."""
        default = SettingSource("default")
        return tuple(
            ExplainedSetting(o.name, getattr(self, o.name), self.sources.get(o.name, default), o.help, o.unit)
            for o in OPTIONS
        )

    @property
    def insists_on_http(self) -> bool:
        """Return whether HTTP was requested: by its port, or by an archive whose clients use it."""
        archive = ("posts_embeddings", "posts_reasoning", "posts_summary")
        return self.http and any(name in self.sources for name in ("http", "port", *archive))

    def as_flags(self) -> tuple[str, ...]:
        """Return the flags that were given, as arguments. A daemon is started with them."""
        given = (o for o in OPTIONS if o.name in self.sources and self.sources[o.name].kind == "flag")
        return tuple(_argument(option, getattr(self, option.name)) for option in given)


def _argument(option: SettingOption, value: object) -> str:
    if option.kind == "switch":
        return option.flag if value else option.flag.replace("--", "--no-", 1)
    if isinstance(value, tuple):
        value = ",".join(value)
    return f"{option.flag}={value}"


OPTIONS: tuple[SettingOption, ...] = tuple(
    replace(entry.metadata["option"], name=entry.name) for entry in fields(Settings) if entry.metadata
)
