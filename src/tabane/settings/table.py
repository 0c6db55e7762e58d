"""The table of all settings, with their meaning, defaults and limits.

The fields of :class:`Settings` are the only definition. Environment variables, flags, `tabane status
--settings`, docs/settings.md and the tests are derived from it.
"""

# ruff: noqa: RUF009  (the calls make dataclass fields with their help, which is what a table is)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tabane.messages import Message, say
from tabane.settings import option
from tabane.settings.content import ContentSettings
from tabane.settings.limit_rules import DEFAULT_RULES, LimitRules
from tabane.settings.option import GIB, KIB, MIB, SettingOption

Mode = Literal["search", "light", "full", "code"]
EXTENSIONS = ("ui", "tasks", "skills")
APPROVAL_WAIT = 45.0
"""Default of approval_wait, in seconds. With it, a call waits only while somebody can answer."""

LogLevel = Literal["trace", "debug", "info", "warning", "error", "silent"]


class SettingSource(NamedTuple):
    """The source of a value. ``where`` is the flag, the variable, or file:line; empty for a default."""

    kind: Literal["flag", "environment", "file", "default"]
    where: str = ""


class ExplainedSetting(NamedTuple):
    """One setting in `tabane status --settings`."""

    name: str
    value: Any
    source: SettingSource
    help: Message
    unit: Message | None


@dataclass(frozen=True, slots=True, kw_only=True, init=False, eq=False, repr=False)
class Settings(ContentSettings):
    """All settings, checked: paths are absolute, and numbers within their limits.

    Made by :func:`tabane.settings.load_settings`. ``sources`` has the source of each value that is not the
    default. ``limits`` are those of the tables ``[tiers]`` and ``[limits]``. ``warnings`` are about unknown
    keys and the like. They are logged once there is a log.
    """

    home: Path = option.path(
        say("the platform's data folder"),
        say(
            "Folder of Tabane's data, logs and socket, readable only by its owner. It cannot "
            "be set in tabane.toml, because an assistant's connection must find it without "
            "reading files."
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
        say("The servers file, which lists the MCP servers."),
    )
    engine: str = option.text(
        "",
        say(
            "Where posts, documents and pages are stored and searched. Empty: in files under home. Or a "
            "PostgreSQL database with pgvector: postgresql://user:${PGPASSWORD}@host/database; needs "
            "tabane[postgres]. The password is written as a variable, whose value is looked up in "
            "secrets.env, the keyring and the environment, or it is in PostgreSQL's own password file. "
            "Parameters of libpq can be appended, such as sslmode, and two of Tabane: schema (default: "
            "tabane) and timeout, the seconds of a statement (default: 120). A change takes effect after "
            "tabane restart."
        ),
    )
    vector_index_from: int = option.whole(
        50_000,
        0,
        1_000_000_000,
        say("vectors"),
        say(
            "Number of vectors of a collection from which the database that engine names has an approximate "
            "index (HNSW), which is built in the background, or is searched with vector_index. Smaller "
            "collections are searched exactly. 0: all searches are exact."
        ),
    )
    vector_index: str = option.text(
        "",
        say(
            "Where the vectors of the database that engine names are searched. Empty: in that database, by "
            "pgvector. Or Milvus: milvus://user:${MILVUS_PASSWORD}@host:19530/database; needs "
            "tabane[milvus]. The database remains the truth: the index follows it, and can be deleted. "
            "Parameters of the URL are in docs/scaling.md. A change takes effect after tabane restart."
        ),
    )
    advertise: str = option.text(
        "",
        say(
            "Address at which other hubs reach this one, such as http://10.0.0.5:8317. Hubs that have it and "
            "use the same database in engine are a group: each answers every client, and passes on requests "
            "for what another one holds. Without TLS (https://), the network between them must be private. "
            "Empty: this hub is in no group. A change takes effect after tabane restart."
        ),
    )
    drain_notice: float = option.seconds(
        5,
        0,
        600,
        say(
            "How long a hub of a group still takes new requests after it began to stop. Its page /readyz "
            "answers 503 from then on, so that a load balancer sends no more. Choose a longer time than the "
            "interval of its health checks."
        ),
    )
    local_replica: bool = option.switch(
        True,
        say(
            "Whether this hub keeps a copy of what the database of engine contains, in home/replica, and "
            "reads that. It is faster, and searches go on while the database is away. The copy follows each "
            "change, and takes about half the disk space of the database. It may be deleted while the hub is "
            "stopped. Has no effect without engine."
        ),
    )
    registry_url: str = option.text(
        "https://registry.modelcontextprotocol.io",
        say(
            "Address of the MCP registry that tabane servers find searches. It must begin with https://, "
            "or be on this computer. off: no registry is asked."
        ),
    )
    mode: Mode = option.choice(
        "search",
        ("search", "light", "full", "code"),
        say(
            "How tools are shown to an assistant that does not choose a mode: search lists a "
            "few tools that find the others, light lists all tools without schemas, full lists "
            "all tools with schemas, code lists a tool that finds the others and one that runs Python "
            "scripts over them."
        ),
    )
    extensions: tuple[str, ...] = option.chosen(
        EXTENSIONS,
        EXTENSIONS,
        say(
            "Extensions of MCP that the hub announces to clients and servers, and passes on between them: ui "
            "(MCP Apps, final), tasks (Tasks, final), skills (Skills, final). A connection to one server "
            "passes on every extension, whatever this setting says."
        ),
    )
    lang: Literal["auto", "ja", "en"] = option.choice(
        "auto",
        ("auto", "ja", "en"),
        say("Language of messages; auto uses the locale of the calling program."),
    )
    log_level: LogLevel = option.choice(
        "info",
        ("trace", "debug", "info", "warning", "error", "silent"),
        say("Lowest severity that is written to the log. It can also be set with LOG_LEVEL."),
        also="LOG_LEVEL",
    )
    log_size: int = option.size(
        10 * MIB, 64 * KIB, GIB, say("Maximum size of a log file before the next one is started.")
    )
    log_files: int = option.whole(
        5, 1, 100, say("files"), say("Number of log files to keep, including the current one.")
    )
    otel_endpoint: str = option.text(
        "",
        say(
            "URL of an OpenTelemetry collector that receives a trace of each call, such as "
            "http://localhost:4318; needs tabane[otel]. Empty: the environment variables of OpenTelemetry "
            "apply, such as OTEL_EXPORTER_OTLP_ENDPOINT."
        ),
    )
    questions_to_page: bool = option.switch(
        False,
        say(
            "If a server asks its user something that the assistant cannot show, the question waits on the "
            "web page (and for tabane questions) for ten minutes, instead of being refused."
        ),
    )
    definition_changes: Literal["warn", "hold"] = option.choice(
        "warn",
        ("warn", "hold"),
        say(
            "What happens if a server changes or adds a definition (tool, prompt, skill) after it was first "
            "seen: warn tells about it, hold also holds it back until you accept it. The key changes in the "
            "servers file decides for one server."
        ),
    )
    poisoned_definitions: Literal["warn", "hold"] = option.choice(
        "hold",
        ("warn", "hold"),
        say(
            "What happens if the definition of a tool, prompt, skill or resource looks like an attack: hold "
            "tells about it, and holds it back until you accept it, if the finding is severe. warn only "
            "tells about it."
        ),
    )
    approval_wait: float = option.seconds(
        APPROVAL_WAIT,
        0,
        600,
        say(
            "How long a call that a person has to approve waits for that, before its caller gets an error "
            "that says what to do. 0: not at all. With the default, it waits only if somebody can answer: "
            "while the web page is open, or if the program says what it waits for. A client that can ask its "
            "user waits for the answer."
        ),
    )
    flow_policy: Literal["off", "ask", "strict"] = option.choice(
        "ask",
        ("off", "ask", "strict"),
        say(
            "What happens before a call that sends private data away or cannot be undone, if its client "
            "has read something that strangers can write: off (nothing), ask (a person has to approve it) "
            "or strict (it is refused, and any call that sends data away is asked about)."
        ),
    )
    start_servers: Literal["on_demand", "at_start"] = option.choice(
        "on_demand",
        ("on_demand", "at_start"),
        say("When MCP servers are started: on first use, or together with the hub."),
    )
    inherit: tuple[str, ...] = option.texts(
        say(
            "Variables of the hub's environment that all MCP servers get besides the usual ones, as patterns "
            "such as AWS_*. Names with TOKEN, AUTH, SECRET, KEY or PASSWORD are passed only if a pattern "
            "matches them."
        )
    )
    list_wait: float = option.seconds(
        2, 0, 60, say("How long a tool search waits for servers that have never listed their tools.")
    )
    idle_end: float = option.limited(
        "number",
        30,
        0,
        10_080,
        say("minutes"),
        say(
            "A hub that was started by an assistant stops after this time without a connected "
            "client; 0 means never."
        ),
    )
    grace: float = option.seconds(
        10, 0, 600, say("How long running calls may take to finish when the hub stops.")
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
        60, 0.1, 86_400, say("Interval between health checks of a server.")
    )
    restart_first: float = option.seconds(
        1, 0.01, 3_600, say("Wait before a crashed server is restarted; it doubles with each failure.")
    )
    restart_max: float = option.seconds(30, 0.01, 3_600, say("Maximum wait before a server is restarted."))
    circuit_failures: int = option.whole(
        5,
        1,
        1_000,
        say("failures"),
        say("After this number of failures in a row, calls to a server are refused at once."),
    )
    circuit_wait: float = option.seconds(
        60, 0.1, 86_400, say("How long calls are refused before the server is tried again.")
    )
    start_timeout: float = option.seconds(
        60, 0.1, 3_600, say("Time limit from the start of a server to its first response.")
    )
    download_timeout: float = option.seconds(
        600, 1, 86_400, say("Time limit for the download of a server's package before its first start.")
    )
    downloads: int = option.whole(
        4,
        1,
        64,
        say("downloads"),
        say("Maximum number of servers whose packages are downloaded at the same time."),
    )
    probe_timeout: float = option.seconds(
        5,
        0.1,
        60,
        say("How long to wait for a response in one protocol version before trying another."),
    )
    queue_length: int = option.whole(
        1_000,
        1,
        100_000,
        say("calls"),
        say("Maximum number of calls that wait for one server; further calls are refused."),
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
    task_after: float = option.seconds(
        20,
        0,
        86_400,
        say(
            "How long a call of a tool may last before it becomes a task of the hub, if its client announces "
            "tasks: the client gets the result later, and the call has more time than the timeout of its "
            "server. 0 means never."
        ),
    )
    script_timeout: float = option.seconds(
        60,
        1,
        600,
        say("How long a script may run that gives no timeout, without the time in which a person is asked."),
    )
    script_seconds: float = option.seconds(
        10, 0.1, 600, say("How long a script may compute, without the time in which tools work.")
    )
    script_memory: int = option.size(64 * MIB, MIB, GIB, say("Memory of the values of a script."))
    script_output: int = option.size(
        MIB, KIB, 64 * MIB, say("Size of what a script prints, and of its result.")
    )
    script_calls: int = option.whole(
        500, 1, 100_000, say("calls"), say("Number of calls of tools that a script may make.")
    )
    script_parallel: int = option.whole(
        16, 1, 200, say("calls"), say("Number of calls of tools that a script makes at the same time.")
    )
    script_workers: int = option.whole(
        4,
        1,
        64,
        say("processes"),
        say(
            "Number of scripts that run at the same time, each in its own process. Read at the first script."
        ),
    )
    script_writes: Literal["ask", "allow", "refuse"] = option.choice(
        "ask",
        ("ask", "allow", "refuse"),
        say(
            "What happens before a script calls a tool that is not marked read-only: ask (a person has to "
            "approve it), allow (nothing) or refuse."
        ),
    )
    learn_result_types: bool = option.switch(
        True,
        say(
            "Whether the hub learns the types of results of tools that declare none, as a hint for models. "
            "It keeps names of properties and kinds of values, but no values. If false, what was learned "
            "is deleted."
        ),
    )
    task_ttl: float = option.seconds(
        3_600,
        10,
        604_800,
        say(
            "How long a call that became a task of the hub may run, and how long the result of a task is "
            "kept after its end."
        ),
    )
    task_results: int = option.size(
        256 * MIB, MIB, 64 * GIB, say("Limit of the results of tasks on disk. The oldest are removed first.")
    )
    task_waiting: bool = option.switch(
        True,
        say(
            "Whether the hub waits for the end of a server's task if the client does not announce tasks, and "
            "gives it the result. If false, the client gets the error of the server."
        ),
    )
    result_tokens: int = option.whole(
        25_000,
        1_000,
        1_000_000,
        say("tokens"),
        say(
            "Size of a tool result's text, at four bytes a token, above which call_tool and "
            "call_readonly_tool return it in parts."
        ),
    )
    result_lifetime: float = option.seconds(
        600,
        10,
        86_400,
        say("Time that a long result is kept after its last read, for read_more and scripts."),
    )
    result_memory: int = option.size(
        64 * MIB,
        MIB,
        64 * GIB,
        say("Memory for all long results that are kept. The oldest are dropped first."),
    )
    result_disk: int = option.size(
        512 * MIB,
        MIB,
        64 * GIB,
        say("Disk space for kept results above 1 MiB each. The oldest are dropped first."),
    )
    credentials_in_calls: Literal["off", "warn", "redact"] = option.choice(
        "warn",
        ("off", "warn", "redact"),
        say(
            "What happens if the arguments of a call, or its result, contain a credential such as an API key "
            "or a private key. With warn, the log and the audit log record its kind. With redact, its place "
            "is taken by a text such as [redacted:github-token]. A server can have a setting of its own."
        ),
    )
    max_line: int = option.size(
        64 * MIB, 64 * KIB, GIB, say("Maximum size of a message, on every transport.")
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
        256, 1, 10_000, say("sessions"), say("Maximum number of clients connected at the same time.")
    )
    http: bool = option.switch(
        True,
        say(
            "Also serve MCP over HTTP, for clients that cannot start a command. A hub inside "
            "an assistant's process (tabane mcp --standalone) does so only if this is set "
            "explicitly."
        ),
    )
    host: str = option.text(
        "127.0.0.1",
        say(
            "The address that HTTP is served at. An address that other machines can reach needs "
            "TLS (tls_certificate and tls_key) or trusted_proxies, and API keys or OAuth."
        ),
    )
    port: int = option.whole(
        8765, 0, 65_535, say("port"), say("The port that HTTP is served at; 0 chooses a free port.")
    )
    tls_certificate: Path | None = option.optional_path(
        say(
            "PEM file of the certificate for HTTPS, with the certificates between it and its authority. "
            "A changed file is used for new connections, without a restart."
        )
    )
    tls_key: Path | None = option.optional_path(
        say("PEM file of the certificate's private key. Only its owner may be able to read it.")
    )
    tls_client_ca: Path | None = option.optional_path(
        say(
            "PEM file of the authorities that sign certificates of clients. If it is set, a client "
            "without such a certificate cannot connect. It needs a key or a token as well."
        )
    )
    public_url: str = option.text(
        "",
        say(
            "The address under which clients reach the hub from other machines, such as "
            "https://tabane.example.com. Its host is one of the allowed hosts."
        ),
    )
    hosts: tuple[str, ...] = option.texts(
        say(
            "Names of this hub that clients may use in a URL, such as tabane.example.com or "
            "tabane.example.com:8443; tabane.example.com:* allows any port. Names of this machine "
            "(localhost) are always allowed, all others are refused."
        )
    )
    trusted_proxies: tuple[str, ...] = option.texts(
        say(
            "Addresses or networks of the proxies in front of the hub, such as 10.0.0.5 or 10.0.0.0/24. "
            "What they say about the client (Forwarded, X-Forwarded-For, -Proto, -Host) is used; from "
            "all others it is ignored."
        )
    )
    proxy_tls: bool = option.switch(
        True,
        say(
            "Refuse requests that reached a trusted proxy without TLS. Turn this off only if nobody else can "
            "read what clients send to the proxy, for example because only this machine can reach its port: "
            "API keys are sent on that way."
        ),
    )
    http_token: bool = option.switch(
        True,
        say(
            "Require HTTP clients to send the token in the file token of TABANE_HOME. If this "
            "is off, every program and every user of this machine can use the hub."
        ),
    )
    web: bool = option.switch(
        True,
        say("Serve the web page at the address of the hub. The command tabane open shows it."),
    )
    login_client_metadata_url: str = option.text(
        "",
        say(
            "The URL of a client ID metadata document that you host (HTTPS). At authorization servers that "
            "accept such documents, logins at servers use it instead of registering Tabane."
        ),
    )
    oauth_issuer: str = option.text(
        "",
        say(
            "URL of the authorization server whose access tokens identify clients over HTTP, exactly as "
            "its metadata has it, such as https://login.example.com/realms/team. Empty: no OAuth."
        ),
    )
    oauth_audience: str = option.text(
        "",
        say(
            "The audience (aud) that access tokens for this hub have. Empty: the URL of MCP, such as "
            "https://tabane.example.com/mcp."
        ),
    )
    oauth_jwks_url: str = option.text(
        "",
        say(
            "URL of the public keys (JWKS) of the authorization server. Empty: it is taken from the "
            "metadata of oauth_issuer."
        ),
    )
    oauth_algorithms: tuple[str, ...] = option.texts(
        say(
            "Signature algorithms of access tokens that are accepted. Empty: RS256 to RS512, PS256 to "
            "PS512, ES256 to ES512 and EdDSA. Others cannot be allowed."
        )
    )
    oauth_introspection_url: str = option.text(
        "",
        say(
            "URL at which the authorization server says whether a token is active (RFC 7662). It is needed "
            "for tokens that are not JWTs."
        ),
    )
    oauth_introspect: Literal["opaque", "always"] = option.choice(
        "opaque",
        ("opaque", "always"),
        say(
            "Which tokens are checked at oauth_introspection_url: only those that are not JWTs, or always. "
            "With always, a revoked token is refused within a minute."
        ),
    )
    oauth_client_id: str = option.text(
        "", say("The client id with which the hub itself logs in at oauth_introspection_url.")
    )
    oauth_client_secret: str = option.text(
        "",
        say(
            "The client secret for oauth_introspection_url, written as a variable: ${NAME}. Its value is "
            "looked up in secrets.env, the keyring and the environment. Never write the secret itself here."
        ),
    )
    oauth_scopes: tuple[str, ...] = option.texts(
        say(
            'What scopes allow, as "SCOPE = PATTERN PATTERN", such as "tools.read = read-only github__* '
            '@posts". A pattern after ! denies. Empty: tabane:read, tabane:*, tabane:admin, '
            "tabane:tool:PATTERN and tabane:source:NAME."
        )
    )
    oauth_tier: str = option.text(
        "authenticated", say("The tier of clients with an access token, which sets their rate limits.")
    )
    oauth_skew: float = option.seconds(
        30, 0, 300, say("How far the clocks of the hub and the authorization server may differ.")
    )
    oauth_timeout: float = option.seconds(
        5, 0.1, 60, say("Time limit for one request to the authorization server.")
    )
    oauth_ca: Path | None = option.optional_path(
        say("PEM file of certificates to trust for the authorization server, in addition to the system's.")
    )
    open_archive: bool = option.switch(
        True,
        say(
            "Answer archive queries over WebSocket and /rpc from programs that do not send the "
            "token, as the original twilog clients do. All other operations always need the "
            "token."
        ),
    )
    ping_interval: float = option.seconds(
        20,
        0.1,
        3_600,
        say(
            "Interval between pings to a WebSocket client. A client that misses three pings is disconnected."
        ),
    )
    origins: tuple[str, ...] = option.texts(
        say(
            "Origins of web pages that may use the hub from a browser, such as "
            "https://app.example.com or http://localhost:3000; http://localhost:* allows any "
            "port. All other pages are refused."
        )
    )
    http_sessions: int = option.whole(
        4096,
        1,
        100_000,
        say("sessions"),
        say(
            "Maximum number of client sessions over HTTP at the same time. A new session "
            "replaces the one that was idle longest; if none is idle, it is refused."
        ),
    )
    http_idle: float = option.limited(
        "number",
        30,
        0.001,
        10_080,
        say("minutes"),
        say("A session over HTTP ends after this time without a request, a running call or an open stream."),
    )
    keyring: bool = option.switch(
        False,
        say(
            "Also look up variables of the servers file in the system's keyring (service "
            '"tabane"). This needs the Python package keyring.'
        ),
    )
    limits: LimitRules = DEFAULT_RULES
    sources: Mapping[str, SettingSource] = field(default_factory=dict)
    warnings: tuple[Message, ...] = ()

    # Generated methods of more than a hundred fields take longer to make than twenty modules to import.

    def __init__(self, **given: Any) -> None:
        """Take the values given, and the defaults of all others. Raises TypeError if one is missing."""
        for each in fields(self):
            value = given.pop(each.name, each.default)
            if value is MISSING and callable(each.default_factory):
                value = each.default_factory()
            if value is MISSING:
                raise TypeError(f"no value for {each.name}")
            object.__setattr__(self, each.name, value)
        if given:
            raise TypeError(f"no such settings: {', '.join(given)}")

    def __eq__(self, other: object) -> bool:
        """Compare the values. Where they come from does not count."""
        if not isinstance(other, Settings):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Settings(home={str(self.home)!r})"

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


_CONTENT = len(fields(ContentSettings))
"""Inherited fields come first; the order of the table is the other way round."""

OPTIONS: tuple[SettingOption, ...] = tuple(
    entry.metadata["option"]._replace(name=entry.name)
    for entry in (*fields(Settings)[_CONTENT:], *fields(Settings)[:_CONTENT])
    if entry.metadata
)

_COMPARED = (*(option.name for option in OPTIONS), "limits")
