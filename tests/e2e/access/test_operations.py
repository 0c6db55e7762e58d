"""Each operation of the hub, and what decides who may call it. A new one has to be added here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tabane.operations import Face
from tests.e2e.access.faces import line_session, program
from tests.e2e.access.policies import DISCLOSURE, Policy, PolicyAccess, policies
from tests.e2e.access.test_no_way_around import Running
from tests.e2e.access.world import DOCUMENT, SERVERS, World
from tests.harness.running_hub import Json

ADMIN, POSTS, DOCUMENTS, PAGES, DOCS, HUB = "admin", "posts", "documents", "pages", "docs", "hub"

SOURCES: dict[str, str] = {
    **dict.fromkeys(DISCLOSURE, HUB),
    **dict.fromkeys(("get_tool", "list_tools", "check_init"), HUB),  # rows are filtered
    **dict.fromkeys(("read_app_resource", "call_app_tool"), HUB),  # resource and tool are checked
    **dict.fromkeys(("read_resource", "get_prompt"), HUB),  # what they read is admitted
    **dict.fromkeys(("list_servers", "health_check", "list_jobs", "follow_job", "cancel_job"), ADMIN),
    **dict.fromkeys(("detach_job", "put_file"), ADMIN),  # that one reads files of this machine
    **dict.fromkeys(("show_server", "server_logs", "hub_status", "model_status", "test_model"), ADMIN),
    **dict.fromkeys(("start_upstream", "stop_upstream", "restart_upstream", "test_server"), ADMIN),
    **dict.fromkeys(("start_login", "finish_login", "get_login", "logout_server"), ADMIN),
    **dict.fromkeys(("start_learning_sandbox", "finish_learning_sandbox"), ADMIN),
    **dict.fromkeys(("try_server", "check_stores", "pull_model", "reembed", "stop_server"), ADMIN),
    **dict.fromkeys(("list_models", "use_model"), ADMIN),
    **dict.fromkeys(("add_server", "change_server", "remove_server", "enable_server"), ADMIN),
    **dict.fromkeys(("show_definition", "check_definition", "find_servers"), ADMIN),
    **dict.fromkeys(("set_tool_visibility", "list_hidden_tools", "sign_in_link"), ADMIN),
    **dict.fromkeys(("keep_server", "restart_hub", "run_doctor", "apply_fix", "list_settings"), ADMIN),
    **dict.fromkeys(("change_setting", "save_profile", "remove_profile"), ADMIN),
    **dict.fromkeys(("import_posts", "add_documents", "watch_documents", "unwatch_documents"), ADMIN),
    **dict.fromkeys(("list_watched", "import_chroma"), ADMIN),
    **dict.fromkeys(("search_similar", "search_posts_by_text", "get_user_stats"), POSTS),
    "get_database_stats": POSTS,
    "check_servers": ADMIN,
    "scan_servers": ADMIN,
    **dict.fromkeys(("suggest_users", "get_status", "get_post", "embed_text", "get_user_list"), POSTS),
    **dict.fromkeys(("get_related_posts", "get_timeline", "get_post_facets", "vector_search"), POSTS),
    "export_posts": POSTS,
    **dict.fromkeys(("find_posts", "list_posts", "list_post_users", "list_post_tags"), POSTS),
    **dict.fromkeys(("put_document", "put_documents", "delete_document"), DOCUMENTS),
    **dict.fromkeys(("search_documents", "search", "get_document", "list_documents"), DOCUMENTS),
    **dict.fromkeys(("put_upload", "list_document_folders"), DOCUMENTS),
    **dict.fromkeys(("get_documents_by_prefix", "get_document_stats", "hello"), DOCUMENTS),
    **dict.fromkeys(("read_url_content", "remember_url", "list_pages", "forget_page"), PAGES),
    "get_documentation": DOCS,
    **dict.fromkeys(("keys_create", "keys_update", "keys_revoke", "keys_list", "keys_show"), ADMIN),
    **dict.fromkeys(("get_rate_limit_stats", "verify_audit_log", "audit_head", "query_audit_logs"), ADMIN),
    **dict.fromkeys(("get_audit_stats", "analyze_usage", "explain_policy"), ADMIN),
    **dict.fromkeys(("list_live_calls", "show_live_call", "get_activity"), ADMIN),
    **dict.fromkeys(("explain_flow", "list_flow_labels", "list_flow_trails"), ADMIN),
    **dict.fromkeys(("forget_flow_trails", "allow_flow", "disallow_flow"), ADMIN),
    "forget_result_types": ADMIN,
    **dict.fromkeys(("list_definition_changes", "show_definition_change"), ADMIN),
    **dict.fromkeys(("accept_definitions", "reject_definitions"), ADMIN),
    **dict.fromkeys(("list_questions", "answer_question"), HUB),  # those of one's own calls
    **dict.fromkeys(("list_approvals", "approve_call", "refuse_call"), ADMIN),  # not one's own calls
    "next_approval": HUB,  # of one's own calls
    **dict.fromkeys(("passphrase_state", "unlock", "set_passphrase", "remove_passphrase"), ADMIN),
    **dict.fromkeys(("list_tasks", "show_task", "cancel_task"), HUB),  # one's own alone
    **dict.fromkeys(("profiles_list", "get_usage_stats"), HUB),  # what one may use, and has used
}  # fmt: skip

CANONICAL = {"search": "search_documents"}
"""Old names of operations: the name of today is what patterns are about."""

READING = frozenset(
    {
        *DISCLOSURE, *(name for name, source in SOURCES.items() if source in (POSTS, DOCS)),
        "get_tool", "list_tools", "list_servers", "health_check", "list_jobs", "follow_job", "check_init",
        "read_resource", "get_prompt",
        "show_definition", "check_definition", "find_servers",
        "show_server", "server_logs", "get_login", "hub_status", "model_status", "test_model",
        "list_models", "list_watched",
        "search_documents", "search", "get_document", "list_documents", "get_documents_by_prefix",
        "list_document_folders", "list_settings",
        "get_document_stats", "hello", "read_url_content", "list_pages",
        "keys_list", "keys_show", "get_rate_limit_stats", "audit_head", "query_audit_logs",
        "get_audit_stats", "analyze_usage", "explain_policy", "profiles_list", "get_usage_stats",
        "list_live_calls", "show_live_call", "get_activity",
        "explain_flow", "list_flow_labels", "list_flow_trails",
        "list_hidden_tools", "list_questions", "list_definition_changes", "show_definition_change",
        "list_approvals", "next_approval", "passphrase_state", "scan_servers",
        "read_app_resource", "call_app_tool",
        "list_tasks", "show_task",
    }
)  # fmt: skip
"""Operations that change nothing."""

REFUSED = (-32601, -31403, -31401)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("world"))
    yield running
    running.close()


def allowed(policy: Policy, name: str) -> bool:
    canonical = CANONICAL.get(name, name)
    if SOURCES[name] == HUB:
        return not policy.read_only or name in READING
    return policy.allows(canonical, SOURCES[name], changes=name not in READING)


def test_each_operation_has_a_source_and_says_whether_it_changes_anything(running: Running) -> None:
    async def scenario(world: World) -> None:
        table = world.served.door.rpc.table
        sources = {operation.name: operation.target.source for operation in table}
        assert sources == {name: SOURCES.get(name, "nobody has decided") for name in sources}
        reading = {operation.name: not operation.target.changes for operation in table}
        assert reading == {name: name in READING for name in reading}
        names = {operation.name: operation.target.name for operation in table}
        assert {name: today for name, today in names.items() if name != today} == CANONICAL

    running.run(scenario)


SAMPLES = [
    *(Policy(allow=(f"@{source}",)) for source in ("posts", "documents", "pages", "docs", "admin", "tools")),
    Policy(allow=("*",)),
    Policy(allow=("*", "@admin"), read_only=True),
    Policy(allow=("*", "@admin"), deny=("@documents", "get_post")),
    Policy(allow=("*", "@admin"), deny=("search_documents",)),
    Policy(allow=("*",), profile=Policy(allow=("@pages", "search*"))),
    Policy(allow=("s*", "search_documents", "stop_*")),
    Policy(allow=()),
]


@pytest.mark.parametrize("policy", SAMPLES, ids=lambda policy: f"{policy.allow}-{policy.deny}")
def test_a_program_may_call_what_its_source_or_name_allows_and_nothing_else(
    running: Running, policy: Policy
) -> None:
    """With parameters that no operation takes: nothing is done, whoever asks."""

    async def scenario(world: World) -> None:
        talk = await program(world, PolicyAccess(policy))
        try:
            for name in [operation.name for operation in world.served.door.rpc.table]:
                answer = json.loads(await talk.ask(name, {"params": "none has this"} | _WRONG))
                refused = answer["error"]["code"] in REFUSED
                assert refused is not allowed(policy, name), (name, answer)
        finally:
            await talk.close()

    running.run(scenario)


_WRONG: Json = {
    name: {"no": ["such", 1]} for name in ("name", "query", "handle", "requests", "server", "names")
}


@pytest.mark.parametrize("policy", SAMPLES, ids=lambda policy: f"{policy.allow}-{policy.deny}")
def test_an_assistant_finds_and_may_call_exactly_the_same(running: Running, policy: Policy) -> None:
    async def scenario(world: World) -> None:
        table = world.served.door.rpc.table
        talk = await line_session(world, PolicyAccess(policy), "full")
        try:
            listed = {tool["name"] for tool in json.loads(await talk.ask("tools/list"))["result"]["tools"]}
            for operation in table.with_face(Face.MCP):
                name, may = operation.name, allowed(policy, operation.name)
                if name in DISCLOSURE:
                    continue
                assert (name in listed) is (may and not operation.alias_of), name
                got = json.loads(await talk.ask("tools/get", {"name": name}))
                assert ("result" in got) is may, (name, got)
                wrong = {"name": name, "arguments": _WRONG}
                for params in (wrong, {"name": "call_tool", "arguments": wrong}):
                    answer = json.loads(await talk.ask("tools/call", params))
                    # That Tabane has an operation is no secret: everybody can read it in the documentation.
                    refused = any(words in json.dumps(answer) for words in ("Unknown tool", "not allowed to"))
                    assert refused is not may, (name, answer)
        finally:
            await talk.close()

    running.run(scenario)


@asynccontextmanager
async def unchanged(world: World) -> AsyncIterator[None]:
    """Everything that a user keeps, and every process, is as before at the end of the block."""
    before = await _state(world)
    yield
    assert await _state(world) == before


async def _state(world: World) -> Json:
    documents = await world.local.call("list_documents")
    text = await world.local.call("get_document", filepath=DOCUMENT)
    gateway = world.hub.gateway
    return {
        "documents": documents,
        "text": text,
        "ends": list(world.served.process.ends),
        "kept": world.served.process.kept_on,
        "jobs": world.hub.jobs.running,
        "servers": {name: [str(i.state) for i in gateway.instances(name)] for name in SERVERS},
        "files": (world.hub.settings.servers.read_bytes(), world.hub.settings.documents_roots),
        "kept files": sorted(
            path.name
            for pattern in ("keys*", "passphrase*", "*pairs*")
            for path in world.hub.settings.home.glob(pattern)
        ),
    }


CHANGES: dict[str, Json] = {
    "set_tool_visibility": {"name": "up__echo", "pinned": True, "hidden": True},
    "put_document": {"filepath": "notes/new.txt", "text": "new"},
    "put_documents": {"documents": [{"filepath": "notes/new.txt", "text": "new"}]},
    "put_upload": {"filepath": "notes/sent.txt", "content": "bmV3"},
    "delete_document": {"filepath": DOCUMENT},
    "put_file": {"path": "/etc/hostname"},
    "remember_url": {"url": "http://127.0.0.1:9/"},
    "forget_page": {"url": "http://127.0.0.1:9/"},
    "add_documents": {"paths": ["/etc/hostname"]},
    "watch_documents": {"path": "/etc"},
    "unwatch_documents": {"path": "/etc"},
    "import_posts": {"files": ["/etc/hostname"]},
    "import_chroma": {"path": "/etc"},
    "start_upstream": {"name": "broken"},
    "check_servers": {"names": ["forge1"]},
    "start_login": {"server": "forge1"},
    "finish_login": {"redirected_url": "http://localhost:1/callback?state=x&code=y"},
    "logout_server": {"server": "forge1"},
    "start_learning_sandbox": {"name": "forge1"},
    "finish_learning_sandbox": {"name": "forge1"},
    "stop_upstream": {"name": "forge1"},
    "restart_upstream": {"name": "forge1"},
    "test_server": {"name": "forge1"},
    "try_server": {"name": "new", "definition": {"command": "touch", "args": ["/tmp/never"]}},
    "add_server": {"name": "new", "definition": {"command": "touch", "args": ["/tmp/never"]}},
    "change_server": {"name": "forge1", "definition": {"command": "touch", "args": ["/tmp/never"]}},
    "remove_server": {"name": "forge1"},
    "enable_server": {"name": "forge1", "enabled": False},
    "check_stores": {},
    "pull_model": {},
    "use_model": {"model": "none"},
    "reembed": {},
    "stop_server": {},
    "keep_server": {},
    "sign_in_link": {},
    "restart_hub": {},
    "run_doctor": {},
    "apply_fix": {},
    "change_setting": {"name": "documents_roots", "value": ["/etc"]},
    "save_profile": {"name": "another", "allow": ["*"]},
    "remove_profile": {"name": "another"},
    "cancel_job": {"job": "abcdef"},
    "cancel_task": {"task": "abcdef"},
    "answer_question": {"id": "abcdef", "action": "decline"},
    "accept_definitions": {"server": "forge1", "definitions": [{"digest": "0" * 64}]},
    "reject_definitions": {"server": "forge1", "definitions": [{"digest": "0" * 64}]},
    "detach_job": {"job": "abcdef"},
    "keys_create": {"name": "another", "allow": ["*", "@admin"]},
    "keys_update": {"key": "another", "allow": ["*"]},
    "keys_revoke": {"key": "another"},
    "verify_audit_log": {},
    "allow_flow": {"pair": "mail>slack"},
    "disallow_flow": {"pair": "mail>slack"},
    "forget_flow_trails": {},
    "forget_result_types": {},
    "approve_call": {"id": "abcdef"},
    "refuse_call": {"id": "abcdef"},
    "set_passphrase": {"passphrase": "correct horse battery staple"},
    "remove_passphrase": {},
    "unlock": {"passphrase": "correct horse battery staple"},
}
"""Parameters of every operation that changes something."""


def test_the_list_of_changes_is_whole() -> None:
    assert set(CHANGES) == set(SOURCES) - READING


Ask = Callable[[str, Json], Awaitable[Any]]


@settings(
    max_examples=8, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(policy=policies)
def test_who_may_only_read_changes_nothing_in_any_way(running: Running, policy: Policy) -> None:
    reading = Policy((*policy.allow, "@admin", "@documents", "*"), policy.deny, read_only=True)

    async def scenario(world: World) -> None:
        access = PolicyAccess(reading)
        rpc, line = await program(world, access), await line_session(world, access)
        try:
            async with unchanged(world):
                for name, params in CHANGES.items():
                    called = {"name": name, "arguments": params}
                    answers = [
                        await rpc.ask(name, params),
                        await rpc.ask("call_tool", called),
                        await rpc.ask("execute_parallel", {"requests": [called]}),
                        await line.ask("tools/call", called),
                        await line.ask("tools/call", {"name": "call_tool", "arguments": called}),
                        await line.ask("tools/call", {"name": "call_readonly_tool", "arguments": called}),
                    ]
                    for answer in map(json.loads, answers):
                        assert _failed(answer), (name, answer)
        finally:
            await rpc.close()
            await line.close()

    running.run(scenario)


def _failed(answer: Any) -> bool:
    result = answer.get("result")
    if result is None:
        return True
    return bool(result.get("isError") or result.get("failed") == 1)


def test_a_key_with_a_source_may_change_what_belongs_to_it(running: Running, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        talk = await line_session(world, PolicyAccess(Policy(allow=("@documents",))))
        try:
            put = {"name": "put_document", "arguments": {"filepath": "notes/own.txt", "text": "own"}}
            assert not _failed(json.loads(await talk.ask("tools/call", put)))
            drop = {"name": "delete_document", "arguments": {"filepath": "notes/own.txt"}}
            assert not _failed(
                json.loads(await talk.ask("tools/call", {"name": "call_tool", "arguments": drop}))
            )
        finally:
            await talk.close()

    running.run(scenario)
