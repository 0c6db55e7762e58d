"""Documents for an assistant: put and searched with tools, listed, read and followed as resources."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tabane.hub.clients.disclosure import Disclosure
from tabane.hub.clients.session import MODES
from tabane.operations import LOCAL, Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, RunningHub, SocketClient, child, running_hub, text

ROOT = "tabane://documents/"
PROGRAM = Caller("local", Face.RPC, "program")

KEYS = (
    "notes/買い物 リスト.md",
    "100% sure? yes&no#1.txt",
    "a%2Fb",
    "https://example.org/a?b=c",
    "🎋",
    " ",
    "C:\\notes\\one.md",
    "が",
)
"""Names that a URI has to escape, one that looks escaped already, and a composed letter."""

every_version = pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])


async def asked(here: RunningHub, name: str, /, **params: Any) -> Any:
    """An operation, as a program calls it."""
    return await here.hub.door.invoke(PROGRAM, name, json.dumps(params).encode())


async def put(here: RunningHub, *filepaths: str, text: str = "words of {}") -> None:
    documents = [{"filepath": name, "text": text.format(name)} for name in filepaths]
    for first in range(0, len(documents), 1000):
        answer = await asked(here, "put_documents", documents=documents[first : first + 1000])
        assert answer["status"] == "success", answer


async def pages(line: SocketClient, method: str, member: str) -> list[list[Json]]:
    """A list, page by page."""
    found: list[list[Json]] = []
    cursor: Json = {}
    while True:
        page = await line.result(method, cursor)
        found.append(page[member])
        if page.get("nextCursor") is None:
            return found
        cursor = {"cursor": page["nextCursor"]}


async def read(line: SocketClient, uri: str) -> str:
    result = await line.result("resources/read", {"uri": uri})
    (contents,) = result["contents"]
    assert contents["uri"] == uri
    return str(contents["text"])


def uri(key: str) -> str:
    return ROOT + quote(key, safe="")


# Tools


@every_version
@pytest.mark.parametrize("through", [False, True], ids=["by name", "through call_tool"])
async def test_a_document_is_put_found_changed_and_deleted(
    tmp_path: Path, version: Client, through: bool
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect(version)
        call = line.through if through else line.call
        new = await call("put_document", filepath="notes/a.md", text="# Tea\n\nGreen, at noon.")
        assert json.loads(text(new)) == new["structuredContent"]
        assert new["structuredContent"]["status"] == "success"
        assert new["structuredContent"]["details"]["updated"] is False
        found = await call("search_documents", query="green")
        assert [hit["filepath"] for hit in found["structuredContent"]["results"]] == ["notes/a.md"]
        assert "Green, at noon." in text(found)
        changed = await call("put_document", filepath="notes/a.md", text="# Tea\n\nBlack, at five.")
        assert changed["structuredContent"]["details"]["updated"] is True
        assert (await call("search_documents", query="green"))["structuredContent"]["count"] == 0
        assert text(await call("get_document", filepath="notes/a.md")) == "# Tea\n\nBlack, at five."
        assert "notes/a.md" in text(await call("list_documents"))
        gone = await call("delete_document", filepath="notes/a.md")
        assert gone["structuredContent"]["deleted_count"] == 1
        again = await call("delete_document", filepath="notes/a.md")
        assert again["isError"] is False
        assert again["structuredContent"]["deleted_count"] == 0
        missing = await call("get_document", filepath="notes/a.md")
        assert missing["isError"] is True
        assert missing["structuredContent"]["error_type"] == "NotFoundError"


WRONG: tuple[tuple[str, Json], ...] = (
    ("put_document", {"filepath": "../etc/passwd", "text": "x"}),
    ("put_document", {"filepath": "", "text": "x"}),
    ("put_document", {"filepath": "a", "text": "x", "metadata": {"deep": {"er": 1}}}),
    ("put_documents", {"documents": [{"filepath": "a\0b", "text": "x"}]}),
    ("search_documents", {"query": "x", "filters": {"$xor": []}}),
)


@pytest.mark.parametrize(("name", "arguments"), WRONG)
async def test_what_fails_is_marked_as_such_and_is_json_as_text_and_structure(
    tmp_path: Path, name: str, arguments: Json
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect()
        direct, through = await line.call(name, **arguments), await line.through(name, **arguments)
        assert direct == through
        assert direct["isError"] is True
        error = direct["structuredContent"]
        assert json.loads(text(direct)) == error
        assert (error["status"], error["error_type"]) == ("error", "ValidationError")
        assert not here.hub.documents.there or (await asked(here, "get_document_stats"))["documents"] == 0


async def test_messages_are_in_the_language_of_the_client(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        said = {}
        for lang in ("en_US", "ja_JP"):
            line = await here.connect(lang=lang)
            good = await line.call("put_document", filepath="a", text="x")
            bad = await line.call("put_document", filepath="../a", text="x")
            said[lang] = [json.loads(text(result))["message"] for result in (good, bad)]
        assert said["ja_JP"][0] == "ドキュメントを登録しました"
        assert said["en_US"][0] == "The document was put"
        assert ".." in said["en_US"][1]
        assert ".." in said["ja_JP"][1]
        assert said["en_US"][1] != said["ja_JP"][1]


async def test_where_its_tools_are_listed_by_mode(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        listed = {}
        for mode in MODES:
            line = await here.connect(mode=mode)
            first = await line.result("tools/list")
            listed[mode] = {tool["name"] for tool in first["tools"]}
            bare = Disclosure(here.hub.table, here.hub.gateway).tool_list(mode, LOCAL)
            await put(here, f"{mode}/a", f"{mode}/b")
            assert await line.result("tools/list") == first  # documents never change it
            assert Disclosure(here.hub.table, here.hub.gateway).tool_list(mode, LOCAL) == bare
        assert "put_document" in listed["search"]
        assert "search_documents" not in listed["search"]
        assert listed["full"] >= {
            "put_document", "put_documents", "put_file", "search_documents", "get_document", "hello",
            "delete_document", "get_documents_by_prefix", "get_document_stats", "list_documents",
        }  # fmt: skip
        assert listed["light"] >= listed["full"]
        found = await line.call("search_tools", query="文書を検索する")
        assert "search_documents(" in text(found)


async def test_a_file_is_put_from_below_the_roots_alone(tmp_path: Path) -> None:
    inside, outside = tmp_path / "notes", tmp_path / "private"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.md").write_text("# 秘密 of this folder\n", "utf-8")
    (inside / "link.md").symlink_to(outside / "a.md")
    async with running_hub(tmp_path, {}, documents_roots=[str(inside)]) as here:
        line = await here.connect()
        good = await line.call("put_file", path=str(inside / "a.md"))
        assert good["structuredContent"]["status"] == "success"
        for path in (outside / "a.md", inside / ".." / "private" / "a.md", inside / "link.md"):
            bad = await line.call("put_file", path=str(path))
            assert bad["isError"] is True
            assert bad["structuredContent"]["error_type"] == "ValidationError"
            assert str(path) in bad["structuredContent"]["message"]
        assert (await asked(here, "get_document_stats"))["documents"] == 1
    async with running_hub(tmp_path, {}) as here:
        refused = await (await here.connect()).call("put_file", path=str(inside / "a.md"))
        assert refused["isError"] is True
        assert "documents_roots" in refused["structuredContent"]["message"]


@pytest.mark.heavy("hubs and servers as processes")
async def test_one_question_is_answered_from_documents_pages_and_tools(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        await put(here, "notes/echo.md", text="# Echo\n\nAn echo in the valley.")
        line = await here.connect()
        found = (await line.call("search_everything", query="echo"))["structuredContent"]["results"]
        assert {"documents", "tools"} <= {hit["kind"] for hit in found}
        only = await line.call("search_everything", query="echo", **{"in": ["documents", "pages"]})
        (hit,) = only["structuredContent"]["results"]
        assert (hit["kind"], hit["key"], hit["title"]) == ("documents", "notes/echo.md", "Echo")
        assert "valley" in hit["text"]
        assert hit["open"] == {"tool": "get_document", "arguments": {"filepath": "notes/echo.md"}}
        await put(here, "https://example.org/a?b;rm -rf", "-echo")
        others = await line.call("search_everything", query="words", **{"in": ["documents"]})
        opens = {hit["open"]["arguments"]["filepath"] for hit in others["structuredContent"]["results"]}
        assert opens == {"https://example.org/a?b;rm -rf", "-echo"}


# Resources


@pytest.mark.heavy("hubs and servers as processes")
@every_version
async def test_documents_are_listed_in_pages_behind_what_servers_offer(
    tmp_path: Path, version: Client
) -> None:
    names = [f"notes/{number:05}.md" for number in range(3_300)]
    async with running_hub(tmp_path, {"one": child("--offers")}) as here:
        await put(here, *names)
        line = await here.connect(version)
        if line.modern:  # who puts one looks for it soon, whatever servers say of theirs
            assert (await line.result("resources/list"))["ttlMs"] <= 5000
        found = await pages(line, "resources/list", "resources")
        assert [len(page) for page in found] == [1000, 1000, 1000, 301]
        listed = [resource for page in found for resource in page]
        assert listed[0]["uri"] == "memo://one"
        assert [resource["uri"] for resource in listed[1:]] == [uri(name) for name in names]
        assert listed[1]["name"] == "00000.md"
        assert listed[1]["mimeType"] == "text/markdown"
        assert listed[1]["size"] == len("words of notes/00000.md")
        assert listed[1]["annotations"]["lastModified"].endswith("Z")


@pytest.mark.parametrize("count", [999, 1000, 1001, 2000])
async def test_a_list_ends_where_its_last_page_is_full(tmp_path: Path, count: int) -> None:
    async with running_hub(tmp_path, {}) as here:
        await put(here, *(f"{number:05}" for number in range(count)))
        found = await pages(await here.connect(), "resources/list", "resources")
        assert [len(page) for page in found] == [1000] * (count // 1000) + [count % 1000][: count % 1000]


async def test_documents_that_come_and_go_while_a_list_is_read_shift_nothing(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {}) as here:
        await put(here, *(f"{number:05}" for number in range(1500)))
        line = await here.connect()
        first = await line.result("resources/list")
        await asked(here, "delete_document", filepath="00999")  # the last of the page
        await put(here, "00000a")
        rest = await line.result("resources/list", {"cursor": first["nextCursor"]})
        assert [one["name"] for one in rest["resources"]] == [f"{n:05}" for n in range(1000, 1500)]


@every_version
async def test_a_template_is_there_as_soon_as_a_document_is(tmp_path: Path, version: Client) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect(version)
        assert (await line.result("resources/templates/list"))["resourceTemplates"] == []
        assert (await line.result("resources/list"))["resources"] == []
        assert not here.hub.documents.there  # nothing is made by asking
        await put(here, "a")
        (template,) = (await line.result("resources/templates/list"))["resourceTemplates"]
        assert template["uriTemplate"] == ROOT + "{key}"


@every_version
async def test_a_document_is_read_under_the_uri_that_is_listed(tmp_path: Path, version: Client) -> None:
    async with running_hub(tmp_path, {}) as here:
        await put(here, *KEYS)
        line = await here.connect(version)
        ((*listed,),) = await pages(line, "resources/list", "resources")
        assert {one["uri"] for one in listed} == {uri(key) for key in KEYS}
        for key in KEYS:
            assert await read(line, uri(key)) == f"words of {key}"
        # As other encoders spell it: slashes as they are, and letters in parts as a Mac has them.
        assert await read(line, ROOT + quote(KEYS[0])) == f"words of {KEYS[0]}"
        assert await read(line, ROOT + quote("\u304b\u3099")) == "words of が"


@pytest.mark.parametrize(("version", "code"), [("2025-06-18", -32002), ("2026-07-28", -32602)])
async def test_a_document_that_is_not_there_is_said_not_to_be(
    tmp_path: Path, version: Client, code: int
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect(version)
        for name in ("nothing", "", "%ff", "a" * 2000, "%00"):
            for _ in range(2):  # before any document was ever put, and after
                response = await line.request("resources/read", {"uri": ROOT + name})
                assert response["error"]["code"] == code, response
                assert response["error"]["data"] == {"uri": ROOT + name}
                await put(here, "something")


@every_version
async def test_a_key_is_completed(tmp_path: Path, version: Client) -> None:
    names = [f"notes/日記 {number:03}.md" for number in range(150)]
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect(version)

        async def completed(value: str) -> Json:
            reference = {"type": "ref/resource", "uri": ROOT + "{key}"}
            argument = {"name": "key", "value": value}
            result = await line.result("completion/complete", {"ref": reference, "argument": argument})
            found: Json = result["completion"]
            return found

        assert (await completed(""))["values"] == []
        await put(here, *names, "other")
        assert (await completed("notes/日記 14"))["values"] == names[140:]
        whole = await completed("")
        assert (whole["values"], whole["hasMore"]) == (names[:100], True)
        assert (await completed("oth")) == {"values": ["other"], "hasMore": False}


# What clients are told


async def following(line: SocketClient, *uris: str, lists: bool = False) -> None:
    """Ask to be told of these resources, as the era of the client has it."""
    if line.modern:
        wanted: Json = {"resourceSubscriptions": list(uris)}
        if lists:
            wanted["resourcesListChanged"] = True
        line.begin("subscriptions/listen", {"notifications": wanted})
        granted = await line.noticed("notifications/subscriptions/acknowledged")
        assert granted["params"]["notifications"] == {key: value for key, value in wanted.items() if value}
    else:
        for one in uris:
            await line.result("resources/subscribe", {"uri": one})


def told(line: SocketClient, method: str) -> list[Any]:
    return [note["params"].get("uri") for note in line.notifications if note["method"] == method]


UPDATED = "notifications/resources/updated"
CHANGED = "notifications/resources/list_changed"


@every_version
async def test_who_follows_a_document_is_told_of_each_change_and_nobody_else(
    tmp_path: Path, version: Client
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line, other = await here.connect(version), await here.connect(version)
        await put(here, "a 1", "b")
        spelled = [uri("a 1"), ROOT + "later"]
        await following(line, *spelled)
        await put(here, "a 1", "b", text="other words of {}")
        await until(lambda: told(line, UPDATED) == spelled[:1], "it is told of the change")
        await put(here, "a 1", text="other words of {}")  # the same, so no change
        await put(here, "later")
        await until(lambda: told(line, UPDATED) == spelled, "it is told of what was not there yet")
        await asked(here, "delete_document", filepath="a 1")
        await until(lambda: len(told(line, UPDATED)) == 3, "it is told of the end")
        assert told(other, UPDATED) == []
        if line.modern:
            ids = {note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
                   for note in line.notifications if note["method"] == UPDATED}  # fmt: skip
            assert len(ids) == 1
            line.notify("notifications/cancelled", {"requestId": ids.pop()})
        else:
            for one in spelled:
                await line.result("resources/unsubscribe", {"uri": one})
        await line.result("resources/list")
        await put(here, "later", text="gone for {}")
        await line.result("resources/list")
        assert len(told(line, UPDATED)) == 3


@every_version
async def test_that_there_are_other_documents_is_told_and_that_one_says_something_else_is_not(
    tmp_path: Path, version: Client
) -> None:
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect(version)
        await following(line, lists=True)
        await put(here, "a")
        await until(lambda: len(told(line, CHANGED)) == 1, "there is a new one")
        await put(here, "a", text="other words of {}")
        await asked(here, "delete_document", filepath="a")
        await until(lambda: len(told(line, CHANGED)) == 2, "it is gone")


@pytest.mark.heavy("hubs and servers as processes")
async def test_many_new_documents_are_told_of_a_few_times(tmp_path: Path) -> None:
    """A client asks for the whole list each time it is told; that is not to be once for each file."""
    async with running_hub(tmp_path, {}) as here:
        line = await here.connect()
        began = time.monotonic()
        for number in range(400):
            await put(here, f"notes/{number}")
        await until(lambda: bool(told(line, CHANGED)), "it is told")
        assert len(told(line, CHANGED)) <= 3 + time.monotonic() - began
        (listed,) = await pages(line, "resources/list", "resources")
        assert len(listed) == 400


@pytest.mark.heavy("hubs and servers as processes")
async def test_a_damaged_store_of_documents_leaves_the_rest_of_the_hub_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "store" / "documents.db"
    async with running_hub(tmp_path, {}) as here:
        await put(here, *(f"a{number}" for number in range(200)))
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(os.urandom(file.stat().st_size - 4096))
    async with running_hub(tmp_path, {"up": child("--offers")}) as here:
        line = await here.connect()
        assert [one["uri"] for one in (await line.result("resources/list"))["resources"]] == ["memo://one"]
        found = (await line.call("search_everything", query="echo"))["structuredContent"]
        assert {hit["kind"] for hit in found["results"]} >= {"tools"}
        assert str(file) in found["warning"]
        for name, arguments in (
            ("put_document", {"filepath": "a", "text": "x"}),
            ("search_documents", {"query": "x"}),
            ("get_document", {"filepath": "a1"}),
            ("delete_document", {"filepath": "a1"}),
        ):
            failed = await line.call(name, **arguments)
            assert failed["isError"] is True
            assert failed["structuredContent"]["error_type"] == "StorageError"
            assert str(file) in failed["structuredContent"]["message"]
        refused = await line.request("resources/read", {"uri": uri("a1")})
        assert str(file) in refused["error"]["message"]
