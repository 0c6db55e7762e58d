"""Operations of the gateway: their parameters and declarations. Handlers are imported on first use."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations import EVERYONE, NoParameters, Opener, Operation, Privilege, bound
from tabane.operations.caller import Face

_HIDDEN = {"hidden": True}
"""Parameters that only Tabane's own programs need: no assistant is shown them."""

_SELDOM = {"seldom": True}
"""Parameters that the list of mode search leaves out."""

_PROGRAMS = {"programs": True}
"""Parameters for people and programs: a model finds tools without them."""


_LONGEST = 2_000
LONGEST_QUERY = 2_000
"""Characters of a query that are read. A longer one is cut."""


class SearchTools(Struct, frozen=True, forbid_unknown_fields=True):
    """``queries`` are the steps of a task, and ``limit`` is for each; :meth:`steps` returns them.

    Beside ``queries``, ``query`` is not used: it is the whole task. A query that is too long is cut.
    ``explain``: also return why each tool matches, and how many tokens an assistant gets. ``kind``: tools if
    it is not given; a default would be a part of each list of tools.
    """

    query: Annotated[str, Meta(min_length=1)] | None = None
    queries: (
        Annotated[
            list[str],  # without limits, which a list of tools would repeat
            Meta(min_length=1, max_length=10, description="Or a short query for each step."),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 5
    server: str | None = None
    tags: (
        Annotated[
            list[str],
            Meta(
                max_length=50,
                description="Only servers with one of these tags of the servers file.",
                extra_json_schema=_PROGRAMS,
            ),
        ]
        | None
    ) = None
    category: (
        Annotated[
            str,
            Meta(
                description="Only servers of this category of the servers file.", extra_json_schema=_PROGRAMS
            ),
        ]
        | None
    ) = None
    match: Annotated[
        Literal["relevance", "partial", "prefix", "exact", "fuzzy"],
        Meta(
            description="relevance: best tools for the task; otherwise how a name must contain the query.",
            extra_json_schema=_PROGRAMS,
        ),
    ] = "relevance"
    explain: Annotated[bool, Meta(extra_json_schema=_HIDDEN)] = False
    kind: Literal["tools", "prompts", "resources", "skills", "all"] | None = None

    def steps(self) -> list[str]:
        """Return the queries, each once. Raises BadArguments if there is none."""
        given = self.queries or ([] if self.query is None else [self.query])
        found = list(dict.fromkeys(query[:LONGEST_QUERY] for query in given if query))
        if not found:
            raise BadArguments(
                say("search_tools takes query, or queries: a list with the steps of a task."), "query"
            )
        return found

    def cut_notice(self) -> Message | None:
        """Return what to say if a query was cut."""
        if all(len(query) <= LONGEST_QUERY for query in self.queries or [self.query or ""]):
            return None
        return say(
            "Only the first {most} {most:character|characters} of a query are searched for.",
            most=LONGEST_QUERY,
        )


class DescribeTools(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of tools, and whether whole definitions are returned."""

    names: Annotated[list[str], Meta(min_length=1, max_length=50)]
    detail: Annotated[Literal["compact", "full"], Meta(extra_json_schema=_SELDOM)] = "compact"


class ForgetTypes(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a tool or a server. Without it, all are meant."""

    name: Annotated[str, Meta(max_length=200)] = ""


class CallTool(Struct, frozen=True, forbid_unknown_fields=True):
    """``max_tokens``: return only the first part of a longer result; read_more returns the others."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    max_tokens: Annotated[int, Meta(ge=1_000, le=1_000_000, extra_json_schema=_HIDDEN)] | None = None


class ReadAppResource(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is the tool that has the app. Without ``uri``, its page is read."""

    name: Annotated[str, Meta(min_length=1)]
    uri: Annotated[str, Meta(min_length=1, max_length=16_384)] | None = None


class CallAppTool(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is the tool that has the app, ``tool`` the one that the app calls, by its own name."""

    name: Annotated[str, Meta(min_length=1)]
    tool: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}


class ReadResource(Struct, frozen=True, forbid_unknown_fields=True):
    """URI of a resource, as it is listed."""

    uri: Annotated[str, Meta(min_length=1, max_length=16_384)]


class GetPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """``arguments`` are those of the prompt, which are texts."""

    name: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, str] = {}


class ExecuteParallel(Struct, frozen=True, forbid_unknown_fields=True):
    """``timeout`` is in seconds and for all calls together; each call also has the limit of its server."""

    requests: Annotated[list[CallTool], Meta(min_length=1, max_length=100)]
    max_concurrency: Annotated[int, Meta(ge=1, le=50)] = 10
    timeout: Annotated[float, Meta(gt=0, le=86_400)] | None = None
    continue_on_error: bool = True


class ReadMore(Struct, frozen=True, forbid_unknown_fields=True):
    """Without anything else, the part of ``handle`` is read. Otherwise all of the result is queried.

    The first part of a result says how, so that a list of tools need not.

    ``select`` is JMESPath, for JSON. ``lines`` is a range of the lines of a text. ``regex`` keeps the lines
    that match, with ``context`` lines around each, or the items of a selected list. ``aggregate`` is of what
    was selected; ``group`` counts each value. ``whole``: return the value itself, not a part of its text.
    """

    handle: Annotated[str, Meta(max_length=100)]
    select: Annotated[str, Meta(max_length=_LONGEST, extra_json_schema=_SELDOM)] | None = None
    lines: (
        Annotated[str, Meta(max_length=60, description='"120-180", "-20"', extra_json_schema=_SELDOM)] | None
    ) = None
    regex: Annotated[str, Meta(max_length=_LONGEST, extra_json_schema=_SELDOM)] | None = None
    context: Annotated[int, Meta(ge=0, le=50, extra_json_schema=_SELDOM)] = 0
    aggregate: (
        Annotated[
            Literal["count", "sum", "min", "max", "avg", "group", "unique", "keys"],
            Meta(extra_json_schema=_SELDOM),
        ]
        | None
    ) = None
    whole: Annotated[bool, Meta(extra_json_schema=_PROGRAMS)] = False

    @property
    def queries(self) -> bool:
        """Return whether something of the result is asked for, instead of a part."""
        given = (self.select, self.lines, self.regex, self.aggregate)
        return any(each is not None for each in given)


class NameParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a tool or of a server."""

    name: Annotated[str, Meta(min_length=1)]


class ListTools(Struct, frozen=True, forbid_unknown_fields=True):
    """Without ``limit``, all tools are returned. ``cursor`` is ``next`` of the page before.

    ``names``: those of these tools that exist; without ``limit`` they keep that order. ``marked``: those that
    their server marks as read-only or as destructive.
    """

    server: str | None = None
    names: Annotated[list[str], Meta(max_length=1_000)] | None = None
    marked: Literal["read_only", "destructive"] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    cursor: Annotated[str, Meta(max_length=1_000)] | None = None


class ListHiddenTools(Struct, frozen=True, forbid_unknown_fields=True):
    """A server, or all servers if there is none."""

    server: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class ToolVisibility(Struct, frozen=True, forbid_unknown_fields=True):
    """``pinned``: always listed, also in search mode. ``hidden``: nobody can find or call it."""

    name: Annotated[str, Meta(min_length=1)]
    pinned: bool | None = None
    hidden: bool | None = None


class CheckServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``names``: all servers if it is not given. ``timeout`` is in seconds and for each server."""

    names: Annotated[list[str], Meta(max_length=1_000)] | None = None
    timeout: Annotated[float, Meta(gt=0, le=600)] = 60.0


class ScanServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``names``: all servers if it is not given."""

    names: Annotated[list[str], Meta(max_length=1_000)] | None = None


class ServerLogs(Struct, frozen=True, forbid_unknown_fields=True):
    """``after`` is the ``cursor`` of an earlier answer: only what was written since is returned."""

    name: Annotated[str, Meta(min_length=1)]
    lines: Annotated[int, Meta(ge=1, le=10_000)] = 50
    after: Annotated[str, Meta(max_length=50)] | None = None


class StartLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """``flow``: in a browser, or with a code on another device; without it, as the servers file says.

    ``redirect``: the browser returns to a port of the hub's computer, or to the hub's own HTTP address.
    ``scopes`` are asked for besides the usual ones. ``restart``: begin again, also if a login waits already.
    """

    server: Annotated[str, Meta(min_length=1)]
    flow: Literal["browser", "device"] | None = None
    redirect: Literal["local", "hub"] = "local"
    scopes: Annotated[list[Annotated[str, Meta(min_length=1, max_length=1_000)]], Meta(max_length=100)] = []
    restart: bool = False


class FinishLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """``redirected_url`` is the URL to which the browser returned, or its query."""

    redirected_url: Annotated[str, Meta(min_length=1, max_length=20_000)]
    id: Annotated[str, Meta(max_length=100)] | None = None


class GetLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """``wait`` is how many seconds to wait while a login is in progress."""

    server: Annotated[str, Meta(min_length=1)]
    wait: Annotated[float, Meta(ge=0, le=60)] = 0


class LogoutServer(Struct, frozen=True, forbid_unknown_fields=True):
    """Name of a server."""

    server: Annotated[str, Meta(min_length=1)]


DefinitionKind = Literal["tool", "prompt", "resource", "template", "skill", "instructions"]

_LONGEST_DEFINED = 16_384


class ListDefinitionChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """A server, or all servers if there is none."""

    server: str | None = None
    limit: Annotated[int, Meta(ge=1, le=20_000, description="Definitions that are returned.")] = 1_000


class ShowDefinitionChange(Struct, frozen=True, forbid_unknown_fields=True):
    """One definition of a server: by its digest, or by its name and kind."""

    server: str
    name: (
        Annotated[
            str,
            Meta(
                max_length=_LONGEST_DEFINED,
                description="The server's own name, or the URI. Needed without a digest.",
            ),
        ]
        | None
    ) = None
    kind: DefinitionKind | None = None
    digest: Annotated[str, Meta(max_length=64, description="Which of several, as listed.")] | None = None


class DefinitionGiven(Struct, frozen=True, forbid_unknown_fields=True):
    """A definition that a person decides about, by the hash of what the person saw."""

    digest: Annotated[str, Meta(min_length=64, max_length=64, description="The hash, as listed.")]
    name: Annotated[str, Meta(max_length=_LONGEST_DEFINED)] | None = None
    kind: DefinitionKind = "tool"


class DecideDefinitions(Struct, frozen=True, forbid_unknown_fields=True):
    """Definitions of a server that a person decides on."""

    server: str
    definitions: Annotated[list[DefinitionGiven], Meta(min_length=1, max_length=20_000)]


def _result_text(result: Any, lang: str) -> str:
    return str(result.text)


_OPERATIONS = (
    Operation(
        "search_tools",
        "Find tools of the user's MCP servers, before you say you cannot: "
        "name(required parameters): purpose. For several steps send queries. Next: describe_tools.",
        SearchTools, "catalog.operations.tool_operations:ToolOperations.search", EVERYONE, text=_result_text,
        source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "describe_tools", "Show all parameters of found tools before a call.",
        DescribeTools, "catalog.operations.tool_operations:ToolOperations.describe", EVERYONE,
        text=_result_text, source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "call_tool", "Call a tool by name, server__tool.",
        CallTool, "catalog.operations.tool_operations:ToolOperations.call", EVERYONE, Privilege.CALL,
        annotations={"destructiveHint": True}, relays=True, source="hub",
    ),
    Operation(
        "call_readonly_tool", "Like call_tool, for tools marked [read-only].",
        CallTool, "catalog.operations.tool_operations:ToolOperations.call_read_only", EVERYONE,
        Privilege.CALL, read_only=True, label="Call read-only tool", relays=True, source="hub",
    ),
    Operation(
        "get_tool", "Get the whole definition of a tool.",
        NameParams, "catalog.operations.tool_operations:ToolOperations.get", source="hub",
        privilege=Privilege.READ,
    ),
    Operation(
        "read_resource", "Read a resource of a server by its URI.",
        ReadResource, "catalog.operations.offer_operations:OfferOperations.read_resource", EVERYONE,
        relays=True, source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "get_prompt", "Get the messages of a prompt of a server.",
        GetPrompt, "catalog.operations.offer_operations:OfferOperations.get_prompt", EVERYONE, relays=True,
        source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "list_tools", "List tools, by server.",
        ListTools, "catalog.operations.tool_operations:ToolOperations.tools", source="hub",
        privilege=Privilege.READ,
    ),
    Operation(
        "execute_parallel", "Call up to 100 tools at once.",
        ExecuteParallel, "catalog.operations.tool_operations:ToolOperations.parallel.execute",
        privilege=Privilege.CALL, camel_case=True, relays=True, source="hub",
    ),
    Operation(
        "read_app_resource", "Read the page of a tool (MCP Apps), or a resource that this page asks for.",
        ReadAppResource, "catalog.operations.offer_operations:AppOperations.read", frozenset({Face.RPC}),
        relays=True, source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "call_app_tool", "Call a tool for the page of a tool (MCP Apps).",
        CallAppTool, "catalog.operations.offer_operations:AppOperations.call", frozenset({Face.RPC}),
        Privilege.CALL, relays=True, source="hub",
    ),
    Operation(
        "list_servers", "List servers and their state.",
        NoParameters, "catalog.operations.server_operations:ServerOperations.servers",
        privilege=Privilege.READ,
    ),
    Operation(
        "show_server", "Show one server in detail.",
        NameParams, "catalog.operations.server_operations:ServerOperations.show", privilege=Privilege.READ,
    ),
    Operation(
        "health_check", "Check whether servers answer.",
        NoParameters, "catalog.operations.server_operations:ServerOperations.health",
        privilege=Privilege.READ,
    ),
    Operation(
        "start_upstream", "Start a server.",
        NameParams, "catalog.operations.server_operations:ServerOperations.start",
    ),
    Operation(
        "stop_upstream", "Stop a server.",
        NameParams, "catalog.operations.server_operations:ServerOperations.stop",
    ),
    Operation(
        "restart_upstream", "Restart a server.",
        NameParams, "catalog.operations.server_operations:ServerOperations.restart",
    ),
    Operation(
        "test_server", "Start a server and list its tools.",
        NameParams, "catalog.operations.server_operations:ServerOperations.test",
    ),
    Operation(
        "server_logs", "Show what a server wrote to stderr.",
        ServerLogs, "catalog.operations.server_operations:ServerOperations.logs", privilege=Privilege.READ,
    ),
    Operation(
        "start_login", "Begin a login at a server that requires one.",
        StartLogin, "catalog.operations.server_operations:ServerOperations.logins.start",
    ),
    Operation(
        "finish_login", "Finish a login with the URL to which the browser returned.",
        FinishLogin, "catalog.operations.server_operations:ServerOperations.logins.finish",
    ),
    Operation(
        "get_login", "Show whether a server requires a login, and until when one is valid.",
        GetLogin, "catalog.operations.server_operations:ServerOperations.logins.get",
        privilege=Privilege.READ,
    ),
    Operation(
        "logout_server", "Revoke and forget the tokens of a login at a server.",
        LogoutServer, "catalog.operations.server_operations:ServerOperations.logins.logout",
    ),
    Operation(
        "list_definition_changes",
        "List definitions of servers (tools, prompts, skills …) that wait for a person: changed or added "
        "since they were first seen, or found to look like an attack.",
        ListDefinitionChanges, "catalog.operations.definition_operations:DefinitionOperations.changes",
        privilege=Privilege.READ,
    ),
    Operation(
        "show_definition_change",
        "Show how a definition differs from the one that was accepted, line by line and field by field, and "
        "what was found, with the place of its evidence in each field.",
        ShowDefinitionChange, "catalog.operations.definition_operations:DefinitionOperations.show",
        privilege=Privilege.READ,
    ),
    Operation(
        "accept_definitions",
        "Accept definitions of a server by their hashes. Refused if the server lists others by now.",
        DecideDefinitions, "catalog.operations.definition_operations:DefinitionOperations.accept",
    ),
    Operation(
        "reject_definitions",
        "Reject definitions of a server by their hashes: they are held back, whatever the settings say.",
        DecideDefinitions, "catalog.operations.definition_operations:DefinitionOperations.reject",
    ),
    Operation(
        "check_servers", "Start idle servers, and ask every server whether it answers.",
        CheckServers, "catalog.operations.server_operations:ServerOperations.checks.check",
    ),
    Operation(
        "scan_servers",
        "Scan what servers listed last for orders to the model, hidden text, and imitated "
        "names. No server is started.",
        ScanServers, "catalog.operations.definition_operations:DefinitionOperations.scans.scan",
        privilege=Privilege.READ,
    ),
    Operation(
        "read_more", "Read on in a long result or query it.",
        ReadMore, "catalog.long_results:LongResults.read", frozenset({Face.MCP, Face.RPC}), source="hub",
        privilege=Privilege.READ,
    ),
    Operation(
        "set_tool_visibility", "Pin, unpin, hide or show a tool of a server, in the servers file.",
        ToolVisibility, "catalog.operations.tool_operations:ToolOperations.visibility.set",
    ),
    Operation(
        "list_hidden_tools", "List tools that the servers file hides.",
        ListHiddenTools, "catalog.operations.tool_operations:ToolOperations.visibility.hidden",
        privilege=Privilege.READ,
    ),
)  # fmt: skip


def gateway_table(
    tools: Opener, offers: Opener, apps: Opener, servers: Opener, definitions: Opener, parts: Opener
) -> list[Operation]:
    """Return all operations of the gateway. ``parts`` gives long results in parts."""
    return bound(
        _OPERATIONS, ToolOperations=tools, OfferOperations=offers, AppOperations=apps,
        ServerOperations=servers, DefinitionOperations=definitions, LongResults=parts,
    )  # fmt: skip
