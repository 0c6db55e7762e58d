"""Declarations of the gateway's operations. Handlers are imported on first use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.catalog.operations import parameters as given
from tabane.operations import Caller, CallTarget, Face, OpenCall, Operation, Privilege

if TYPE_CHECKING:
    from tabane.catalog.gateway import Gateway
    from tabane.catalog.long_results import LongResults
    from tabane.catalog.operations.definition_operations import DefinitionOperations
    from tabane.catalog.operations.offer_operations import AppOperations, OfferOperations
    from tabane.catalog.operations.server_operations import ServerOperations
    from tabane.catalog.operations.tool_operations import Learned, ToolOperations
    from tabane.servers.editing import ReloadableServersFile

MODEL = frozenset({Face.MCP, Face.RPC, Face.CLI})
PERSON = frozenset({Face.RPC, Face.CLI})
RPC = frozenset({Face.RPC})


class GatewayHandlers:
    """Handlers of the gateway's operations. Each module of them is loaded with its first operation.

    ``admit`` admits a call of an upstream's tool. ``call_own`` calls one of the hub's own tools by name with
    arguments, and returns the result as MCP has it. ``parts`` gives long results in parts. ``file`` is the
    servers file. ``learned`` returns types of results that were learned.
    """

    def __init__(
        self,
        gateway: Gateway,
        admit: Callable[[Caller, CallTarget, bytes], OpenCall],
        call_own: Callable[[Caller, str, bytes], Awaitable[Raw]],
        parts: LongResults,
        file: ReloadableServersFile,
        learned: Learned = lambda caller, tool: None,
    ) -> None:
        self._gateway, self._admit, self._call_own = gateway, admit, call_own
        self.parts, self._file, self._learned = parts, file, learned

    @cached_property
    def tools(self) -> ToolOperations:
        """Return the handlers for tools."""
        from tabane.catalog.operations.tool_operations import ToolOperations

        return ToolOperations(
            self._gateway, self._admit, self._call_own, self.parts, self._file, self._learned
        )

    @cached_property
    def offers(self) -> OfferOperations:
        """Return the handlers for prompts and resources."""
        from tabane.catalog.operations.offer_operations import OfferOperations

        return OfferOperations(self._gateway, self._admit, self.parts)

    @cached_property
    def apps(self) -> AppOperations:
        """Return the handlers for apps."""
        from tabane.catalog.operations.offer_operations import AppOperations

        return AppOperations(self._gateway, self._admit, self.tools.perform)

    @cached_property
    def servers(self) -> ServerOperations:
        """Return the handlers for servers, their logins and checks."""
        from tabane.catalog.operations.server_operations import ServerOperations

        return ServerOperations(self._gateway, self._file)

    @cached_property
    def definitions(self) -> DefinitionOperations:
        """Return the handlers for the review of definitions and scans."""
        from tabane.catalog.operations.definition_operations import DefinitionOperations

        return DefinitionOperations(self._gateway)


def gateway_table(handlers: GatewayHandlers) -> list[Operation]:
    """Return all operations of the gateway."""
    return [
        *_tool_operations(handlers),
        *_server_operations(handlers),
        *_definition_operations(handlers),
        _read_operation(
            "read_more", "Read on in a long result or query it.", given.ReadMore, handlers.parts.read,
            frozenset({Face.MCP, Face.RPC}),
        ),
        Operation(
            "set_tool_visibility", "Pin, unpin, hide or show a tool of a server, in the servers file.",
            given.ToolVisibility, lambda c, p: handlers.tools.visibility.set(c, p), PERSON, Privilege.ADMIN,
        ),
        _read_operation(
            "list_hidden_tools", "List tools that the servers file hides.",
            given.ListHiddenTools, lambda c, p: handlers.tools.visibility.hidden(c, p), source="admin",
        ),
    ]  # fmt: skip


def _tool_operations(handlers: GatewayHandlers) -> list[Operation]:
    return [
        _read_operation(
            "search_tools",
            "Find tools of all the user's MCP servers by task, before you say you cannot do it: "
            "name(required parameters): purpose. Next: describe_tools.",
            given.SearchTools, lambda c, p: handlers.tools.search(c, p), MODEL, _result_text,
        ),
        _read_operation(
            "describe_tools", "Show all parameters of found tools before a call.",
            given.DescribeTools, lambda c, p: handlers.tools.describe(c, p), MODEL, _result_text,
        ),
        Operation(
            "call_tool", "Call a tool by name, server__tool.",
            given.CallTool, lambda c, p: handlers.tools.call(c, p), MODEL, Privilege.CALL,
            annotations={"destructiveHint": True}, source="hub", relays=True,
        ),
        Operation(
            "call_readonly_tool", "Like call_tool, for tools marked [read-only].",
            given.CallTool, lambda c, p: handlers.tools.call_read_only(c, p),
            MODEL, Privilege.CALL, read_only=True,
            label="Call read-only tool", source="hub", relays=True,
        ),
        _read_operation(
            "get_tool", "Get the whole definition of a tool.",
            given.NameParams, lambda c, p: handlers.tools.get(c, p),
        ),
        _read_operation(
            "read_resource", "Read a resource of a server by its URI.",
            given.ReadResource, lambda c, p: handlers.offers.read_resource(c, p), MODEL, relays=True,
        ),
        _read_operation(
            "get_prompt", "Get the messages of a prompt of a server.",
            given.GetPrompt, lambda c, p: handlers.offers.get_prompt(c, p), MODEL, relays=True,
        ),
        _read_operation(
            "list_tools", "List tools, by server.", given.ListTools,
            lambda c, p: handlers.tools.tools(c, p),
        ),
        Operation(
            "execute_parallel", "Call up to 100 tools at once.",
            given.ExecuteParallel, lambda c, p: handlers.tools.parallel.execute(c, p),
            PERSON, Privilege.CALL, camel_case=True,
            source="hub", relays=True,
        ),
        Operation(
            "read_app_resource", "Read the page of a tool (MCP Apps), or a resource that this page asks for.",
            given.ReadAppResource, lambda c, p: handlers.apps.read(c, p), RPC, Privilege.READ, read_only=True,
            source="hub", relays=True,
        ),
        Operation(
            "call_app_tool", "Call a tool for the page of a tool (MCP Apps).",
            given.CallAppTool, lambda c, p: handlers.apps.call(c, p),
            RPC, Privilege.CALL, source="hub", relays=True,
        ),
    ]  # fmt: skip


def _server_operations(handlers: GatewayHandlers) -> list[Operation]:
    return [
        _read_operation(
            "list_servers", "List servers and their state.",
            given.NoServerParams, lambda c, p: handlers.servers.servers(c, p), source="admin",
        ),
        _read_operation(
            "show_server", "Show one server in detail.",
            given.NameParams, lambda c, p: handlers.servers.show(c, p), source="admin",
        ),
        _read_operation(
            "health_check", "Check whether servers answer.",
            given.NoServerParams, lambda c, p: handlers.servers.health(c, p), source="admin",
        ),
        _admin_operation("start_upstream", "Start a server.", lambda c, p: handlers.servers.start(c, p)),
        _admin_operation("stop_upstream", "Stop a server.", lambda c, p: handlers.servers.stop(c, p)),
        _admin_operation(
            "restart_upstream", "Restart a server.", lambda c, p: handlers.servers.restart(c, p)
        ),
        _admin_operation(
            "test_server", "Start a server and list its tools.", lambda c, p: handlers.servers.test(c, p)
        ),
        _read_operation(
            "server_logs", "Show what a server wrote to stderr.",
            given.ServerLogs, lambda c, p: handlers.servers.logs(c, p), source="admin",
        ),
        Operation(
            "start_login", "Begin a login at a server that requires one.",
            given.StartLogin, lambda c, p: handlers.servers.logins.start(c, p), PERSON, Privilege.ADMIN,
        ),
        Operation(
            "finish_login", "Finish a login with the URL to which the browser returned.",
            given.FinishLogin, lambda c, p: handlers.servers.logins.finish(c, p), PERSON, Privilege.ADMIN,
        ),
        _read_operation(
            "get_login", "Show whether a server requires a login, and until when one is valid.",
            given.GetLogin, lambda c, p: handlers.servers.logins.get(c, p), source="admin",
        ),
        Operation(
            "logout_server", "Revoke and forget the tokens of a login at a server.",
            given.LogoutServer, lambda c, p: handlers.servers.logins.logout(c, p), PERSON, Privilege.ADMIN,
        ),
    ]  # fmt: skip


def _definition_operations(handlers: GatewayHandlers) -> list[Operation]:
    return [
        _read_operation(
            "list_definition_changes",
            "List definitions of servers (tools, prompts, skills …) that wait for a person: changed or added "
            "since they were first seen, or found to look like an attack.",
            given.ListDefinitionChanges, lambda c, p: handlers.definitions.changes(c, p), source="admin",
        ),
        _read_operation(
            "show_definition_change",
            "Show line by line how a definition differs from the one that was accepted, and what was found.",
            given.ShowDefinitionChange, lambda c, p: handlers.definitions.show(c, p), source="admin",
        ),
        Operation(
            "accept_definitions",
            "Accept definitions of a server by their hashes. Refused if the server lists others by now.",
            given.DecideDefinitions, lambda c, p: handlers.definitions.accept(c, p), PERSON, Privilege.ADMIN,
        ),
        Operation(
            "reject_definitions",
            "Reject definitions of a server by their hashes: they are held back, whatever the settings say.",
            given.DecideDefinitions, lambda c, p: handlers.definitions.reject(c, p), PERSON, Privilege.ADMIN,
        ),
        Operation(
            "check_servers", "Start idle servers, and ask every server whether it answers.",
            given.CheckServers, lambda c, p: handlers.servers.checks.check(c, p), PERSON, Privilege.ADMIN,
        ),
        Operation(
            "scan_servers",
            "Scan what servers listed last for orders to the model, hidden text, and imitated "
            "names. No server is started.",
            given.ScanServers, lambda c, p: handlers.definitions.scans.scan(c, p),
            PERSON, Privilege.READ, read_only=True,
        ),
    ]  # fmt: skip


def _read_operation(
    name: str,
    description: str,
    params: Any,
    handler: Any,
    faces: frozenset[Face] = PERSON,
    text: Any = None,
    source: str = "hub",
    relays: bool = False,
) -> Operation:
    return Operation(
        name, description, params, handler, faces, Privilege.READ, text=text, read_only=True, source=source,
        relays=relays,
    )  # fmt: skip


def _admin_operation(name: str, description: str, handler: Any) -> Operation:
    return Operation(name, description, given.NameParams, handler, PERSON, Privilege.ADMIN)


def _result_text(result: Any, lang: str) -> str:
    return str(result.text)
