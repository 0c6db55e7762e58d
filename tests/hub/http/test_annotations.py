"""Annotations of operations, compared with the effects of each operation of the hub."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tabane.errors import TabaneError
from tabane.hub.people.flows import TRAIL_FILE as TRAILS
from tabane.hub.process.administration import whole_table
from tabane.operations import Caller, Face, Operation, OperationTable, Privilege
from tabane.reader.crawling.site_file import FILE
from tests.harness.archive import write_archive
from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.running_hub import child
from tests.reader.pages import serve
from tests.reader.site import Site, furnish, running

KEPT = ("posts", "documents")
"""Domains of the store with data that users keep. Pages that were read and vectors can be made again."""

ADMINISTRATIVE_READS = {"list_watched"}
CALLS_WHAT_READS = {"call_readonly_tool"}

UNANSWERED = {
    "next_approval",
    *("read_resource", "get_prompt", "read_app_resource"),
    *("embed_text", "test_model", "vector_search", "get_related_posts", "read_more", "show_task"),
    *("explain_policy", "keys_show", "find_servers", "show_definition_change", "show_project"),
}
"""Those that may fail in a hub without a model, without a long result, without keys or a registry."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running() as site:
        furnish(site)
        serve(site)
        yield site


def samples(url: str, job: str) -> dict[str, dict[str, Any]]:
    """Return the parameters for each operation that only reads."""
    return {
        "analyze_usage": {},
        "audit_head": {},
        "check_definition": {"name": "new", "definition": {"command": "touch"}},
        "check_init": {},
        "describe_tools": {"names": ["up__echo", "put_document"]},
        "embed_text": {"text": "cat"},
        "explain_flow": {"tool": "up__echo"},
        "explain_policy": {"key": "none", "tool": "up__echo"},
        "export_posts": {"format": "csv"},
        "find_servers": {"query": "weather"},
        "find_posts": {"query": "cat", "mode": "hybrid"},
        "follow_job": {"job": job, "wait": 0},
        "get_audit_stats": {},
        "get_database_stats": {},
        "get_document": {"filepath": "notes/cat.md"},
        "get_document_stats": {},
        "get_documents_by_prefix": {"prefix": "notes", "include_documents": True},
        "get_post": {"post_id": 1},
        "get_post_facets": {"field": "user"},
        "get_rate_limit_stats": {},
        "get_related_posts": {"post_id": 1},
        "get_status": {},
        "get_timeline": {"unit": "month"},
        "get_tool": {"name": "up__echo"},
        "get_usage_stats": {},
        "get_user_list": {},
        "get_user_stats": {},
        "health_check": {},
        "get_documentation": {"section": "reader.md"},
        "hello": {"name": "x"},
        "hub_status": {"settings": True},
        "list_live_calls": {},
        "list_assistants": {},
        "preview_setup": {},
        "show_project": {"folder": "/none"},
        "list_models": {},
        "list_questions": {},
        "list_definition_changes": {},
        "scan_servers": {},
        "show_definition_change": {"server": "up"},
        "list_approvals": {},
        "next_approval": {},
        "passphrase_state": {},
        "show_live_call": {"number": 1},
        "get_activity": {},
        "keys_list": {},
        "keys_show": {"key": "none"},
        "list_document_folders": {},
        "list_documents": {},
        "list_hidden_tools": {},
        "list_flow_labels": {},
        "list_flow_trails": {},
        "list_jobs": {},
        "list_pages": {},
        "list_post_tags": {},
        "list_post_users": {},
        "list_posts": {},
        "list_servers": {},
        "list_tasks": {},
        "show_task": {"task": "none"},
        "list_settings": {},
        "list_tools": {},
        "list_watched": {},
        "model_status": {},
        "profiles_list": {},
        "query_audit_logs": {},
        "read_app_resource": {"name": "up__echo", "uri": "ui://none"},
        "read_more": {"handle": "none"},
        "read_resource": {"uri": "memo://none"},
        "get_prompt": {"name": "none"},
        "read_site": {"url": url, "limit": 1},
        "read_url_content": {"url": url, "refresh": True},
        "search": {"query": "cat"},
        "search_documents": {"query": "cat", "include_documents": True},
        "search_everything": {"query": "cat"},
        "search_posts_by_text": {"search_term": "cat"},
        "search_similar": {"query": "cat", "mode": "hybrid"},
        "search_tools": {"query": "echo"},
        "server_logs": {"name": "up"},
        "get_login": {"server": "up"},
        "show_definition": {"name": "up"},
        "show_server": {"name": "up"},
        "suggest_users": {"user_list": ["alicia"]},
        "test_model": {"text": "cat"},
        "vector_search": {"query": "cat"},
    }


class Watch:
    """Detects commits to what users keep, and changes of other files in the home."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self._home = home
        files = [path for name in KEPT for path in sorted((home / "store").glob(f"{name}*.db"))]
        assert files
        self._databases = [stack.enter_context(closing(sqlite3.connect(path))) for path in files]

    def state(self) -> object:
        """Return a value that changes with any commit of another connection or change of another file."""
        # The version changes where another connection commits, and never for a reading one.
        versions = [base.execute("PRAGMA data_version").fetchone() for base in self._databases]
        files = {path.name: path.read_bytes() for path in self._home.glob("*.toml")}
        files |= {path.name: path.read_bytes() for path in self._home.glob("*.json")}
        # What was read is noted for the flow policy, as calls are in the audit log. Known pages of sites are
        # a cache of what their sites have.
        noted = (TRAILS, FILE)
        names = sorted(path.name for path in self._home.iterdir() if not path.name.startswith(noted))
        return versions, files, names


async def filled(here: HttpHub, folder: Path) -> str:
    """Give the hub posts, a document and a server that was used; return the id of the job that imported."""
    paths = write_archive(folder)
    job: str = (await asked(here, "import_posts", {"files": [paths["csv"]]}))["job"]
    state: dict[str, Any] = {}
    while state.get("status", "running") == "running":
        state = await asked(here, "follow_job", {"job": job, "wait": 5, "version": state.get("version")})
    assert state["status"] == "done", state
    await asked(here, "put_document", {"text": "The cat sleeps.", "filepath": "notes/cat.md"})
    await asked(here, "call_tool", {"name": "up__echo", "arguments": {"text": "x"}})
    return job


async def asked(here: HttpHub, name: str, params: dict[str, Any]) -> Any:
    """Return the answer to a program with the token; of a stream, its parts."""
    door, caller = here.door.rpc, Caller("local", Face.RPC, "test")
    operation = door.table.get(name)
    assert operation is not None, name
    given = json.dumps(params).encode()
    if operation.kind == "stream":
        return [part async for part in door.stream(caller, name, given)]
    return await door.invoke(caller, name, given)


def reads(table: OperationTable) -> list[Operation]:
    return [
        operation for operation in table if operation.read_only and operation.privilege is not Privilege.CALL
    ]


@pytest.mark.heavy("a hub with real servers")
async def test_what_is_marked_as_reading_leaves_all_that_users_keep_as_it_is(
    tmp_path: Path, site: Site
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir(mode=0o700)
    settings: dict[str, Any] = {
        "reader_allow": site.allowed,
        "model": "none",
        "registry_url": "off",
        "learn_result_types": False,  # their file is written a moment after a call
    }
    async with http_hub(home, {"up": child()}, **settings) as here:
        here.hub.audit.live.attach()  # calls are listed from then on
        job = await filled(here, away)
        given = samples(site.url("/article"), job)
        assert {operation.name for operation in reads(here.door.rpc.table)} == set(given)
        with ExitStack() as stack:
            watch = Watch(here.hub.settings.home, stack)
            await asked(here, "search_everything", {"query": "cat"})  # opens what is opened once
            for name, params in given.items():
                before = watch.state()
                with suppress(TabaneError) if name in UNANSWERED else nullcontext():
                    await asked(here, name, params)
                assert watch.state() == before, name
            for name, params in WRITING.items():
                before = watch.state()
                await asked(here, name, params | ({"url": site.url("/article")} if "url" in name else {}))
                assert watch.state() != before, f"{name} writes, which this test does not see"


WRITING: dict[str, dict[str, Any]] = {
    "remember_url": {},
    "put_document": {"text": "Another cat.", "filepath": "notes/other.md"},
    "delete_document": {"filepath": "notes/cat.md"},
}


def test_marks_agree_with_what_a_caller_needs_to_be_allowed() -> None:
    table = asyncio.run(whole_table())
    for operation in table:
        is_read = operation.privilege is Privilege.READ
        excepted = operation.name in ADMINISTRATIVE_READS | CALLS_WHAT_READS
        assert operation.read_only == (is_read or excepted), operation.name
        assert is_read or not operation.public, operation.name
        if operation.read_only:
            assert not operation.annotations.keys() - {"openWorldHint"}, (
                "others mean nothing if it only reads"
            )
        assert "readOnlyHint" not in operation.annotations, "this is made of read_only"
        if Face.MCP in operation.faces:
            assert operation.privilege is not Privilege.ADMIN, "administration is no tool of assistants"
