"""Operations that change which servers there are: the servers file is edited, and in force at once.

Servers are found in the MCP registry. The first starts of new servers are a job: they are the hub's own,
started at the same time, so what they download stays, and they need not start again. The job ends with the
last of them. If it is canceled, or nobody follows it, they start all the same.

A setup of assistants is a job, too: their servers are imported and started, then their files are changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.messages import say
from tabane.operations import NoParameters, Opener, Operation, Privilege, bound
from tabane.settings import Mode

MOST_SERVERS = 500
LONGEST_WAIT = 30


class TryServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``definition`` is the entry that the servers file would have under ``name``.

    ``replaces`` is the server whose hidden values (``***``) the definition may contain. ``secrets`` are
    values of variables that are not kept yet.
    """

    name: Annotated[str, Meta(min_length=1)]
    definition: dict[str, Any]
    replaces: str | None = None
    secrets: dict[str, str] = {}


class StartNewServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``names`` are servers of the file. The answer comes when all have listed, or after ``wait`` seconds."""

    names: Annotated[list[str], Meta(min_length=1, max_length=MOST_SERVERS)]
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class FindServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``query`` is a part of a name or of a description. ``cursor`` is ``next`` of the page before."""

    query: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, Meta(max_length=1_000)] | None = None


Name = Annotated[str, Meta(min_length=1, max_length=200)]


class NamedServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a server of the file."""

    name: Name


class CheckDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """``replaces`` is the server whose hidden values the definition may contain; None for a new server."""

    name: Name
    definition: dict[str, Any]
    replaces: str | None = None


class AddServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``keep_secrets``: keys and passwords are kept as secrets, and the entry refers to them."""

    name: Name
    definition: dict[str, Any]
    keep_secrets: bool = False


class ChangeServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``version`` is that of the shown definition: if the file has another by now, nothing is changed.

    ``keep_secrets``: new keys and passwords are kept as secrets, and the entry refers to them.
    """

    name: Name
    definition: dict[str, Any]
    version: str | None = None
    keep_secrets: bool = False


class EnableServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``enabled``: False disables the server."""

    name: Name
    enabled: bool


Answer = Annotated[str, Meta(max_length=10_000)]
Assistants = Annotated[list[Annotated[str, Meta(max_length=100)]], Meta(max_length=100)]


class ChosenAssistants(Struct, frozen=True, forbid_unknown_fields=True):
    """``assistants`` are names of ``list_assistants``; without any, it is all that are found."""

    assistants: Assistants = []


class PreviewSetup(Struct, frozen=True, forbid_unknown_fields=True):
    """``mode`` is how tools are listed to these assistants, instead of the mode that suits each.

    ``secrets`` are values of variables that entries of assistants ask their user for, by name.
    """

    assistants: Assistants = []
    mode: Mode | None = None
    secrets: Annotated[dict[str, Answer], Meta(max_length=100)] = {}


class SetUpAssistants(Struct, frozen=True, forbid_unknown_fields=True):
    """As PreviewSetup. ``version`` is that of the shown preview: if the files have changed since, nothing is
    done."""

    assistants: Assistants = []
    mode: Mode | None = None
    secrets: Annotated[dict[str, Answer], Meta(max_length=100)] = {}
    version: str | None = None


class DisconnectAssistant(Struct, frozen=True, forbid_unknown_fields=True):
    """``session`` is the connection's name in ``sessions`` of ``list_assistants``."""

    session: Annotated[str, Meta(min_length=1, max_length=200)]


class ShowProject(Struct, frozen=True, forbid_unknown_fields=True):
    """``folder`` is that of a project in ``projects_offered`` of ``hub_status``."""

    folder: Annotated[str, Meta(min_length=1, max_length=4096)]


class TrustProject(Struct, frozen=True, forbid_unknown_fields=True):
    """``version`` is that of the shown files: if they have changed since, nothing is trusted."""

    folder: Annotated[str, Meta(min_length=1, max_length=4096)]
    version: Annotated[str, Meta(min_length=1, max_length=100)]


_OPERATIONS = (
    Operation(
        "try_server", "Start a server that is not configured, list its tools and end it.",
        TryServer, "hub.servers.server_changes:ServerChanges.try_out",
    ),
    Operation(
        "show_definition", "The entry of a server in the servers file, without secrets.",
        NamedServer, "hub.servers.server_changes:ServerChanges.show", privilege=Privilege.READ,
    ),
    Operation(
        "check_definition", "Check an entry for the servers file, without changing anything.",
        CheckDefinition, "hub.servers.server_changes:ServerChanges.check", privilege=Privilege.READ,
    ),
    Operation(
        "add_server", "Add a server to the servers file.",
        AddServer, "hub.servers.server_changes:ServerChanges.add",
    ),
    Operation(
        "change_server", "Replace the entry of a server in the servers file. Values shown as *** stay.",
        ChangeServer, "hub.servers.server_changes:ServerChanges.change",
    ),
    Operation(
        "remove_server", "Remove a server from the servers file.",
        NamedServer, "hub.servers.server_changes:ServerChanges.remove",
    ),
    Operation(
        "enable_server", "Enable or disable a server in the servers file.",
        EnableServer, "hub.servers.server_changes:ServerChanges.enable",
    ),
    Operation(
        "find_servers", "Find servers in the MCP registry: what each runs and needs, and an entry to add.",
        FindServers, "hub.servers.server_changes:ServerChanges.find", annotations={"openWorldHint": True},
        privilege=Privilege.READ,
    ),
    Operation(
        "start_new_servers", "Start servers that were just added, and scan what they list: a job of the hub.",
        StartNewServers, "hub.servers.server_changes:ServerChanges.start_new",
    ),
    Operation(
        "list_assistants",
        "Assistants on the hub's machine: whether each uses Tabane, and what a setup would do.",
        NoParameters, "hub.servers.assistant_setup:AssistantSetups.assistants", privilege=Privilege.READ,
    ),
    Operation(
        "preview_setup", "The lines of assistants' files that a setup would change, without secrets.",
        PreviewSetup, "hub.servers.assistant_setup:AssistantSetups.preview", privilege=Privilege.READ,
    ),
    Operation(
        "set_up_assistants",
        "Import the servers of assistants, start them, and let the assistants use Tabane instead.",
        SetUpAssistants, "hub.servers.assistant_setup:AssistantSetups.set_up", kind="job",
        title=lambda params: say("Connecting assistants"),
    ),
    Operation(
        "undo_setup", "Take the changes of a setup out of assistants' files again.",
        ChosenAssistants, "hub.servers.assistant_setup:AssistantSetups.undo",
    ),
    Operation(
        "disconnect_assistant",
        "End the connection of an assistant. It is back when its program starts it again.",
        DisconnectAssistant, "hub.servers.assistant_setup:AssistantSetups.disconnect",
    ),
    Operation(
        "show_project", "The servers that the files of a project would run, and what changed since they "
        "were trusted.",
        ShowProject, "hub.servers.project_trust:ProjectTrusts.show", privilege=Privilege.READ,
    ),
    Operation(
        "trust_project", "Trust the files of a project: assistants that work there use its servers.",
        TrustProject, "hub.servers.project_trust:ProjectTrusts.trust",
    ),
)  # fmt: skip


def setup_table(changes: Callable[[], Any], assistants: Opener) -> list[Operation]:
    """Return the operations. What answers them is imported with the first."""

    def projects() -> Any:
        return changes().projects

    return bound(_OPERATIONS, ServerChanges=changes, AssistantSetups=assistants, ProjectTrusts=projects)
