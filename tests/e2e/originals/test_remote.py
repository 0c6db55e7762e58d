"""`tabane mcp --websocket ws://…`: a hub over TCP, and a server of the original twilog."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tabane.build import this_build
from tabane.hub.rpc.tcp_peers import SocketAddress, listener_in
from tests.harness.bridge import BridgeClient, request
from tests.harness.home import Home, hub
from tests.harness.patience import LONG
from tests.harness.ports import reserved_port
from tests.harness.servers.twilog import twilog_server
from tests.harness.user import Assistant, assistant


def home_in(folder: Path) -> Home:
    folder.mkdir()
    return Home(folder)


@pytest.fixture
def me(tmp_path: Path) -> Home:
    """Return the home of the client, which has no hub."""
    return home_in(tmp_path / "me")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Home:
    """Start a home whose hub listens at a port, with one server behind it."""
    found = home_in(tmp_path / "elsewhere")
    found.environment |= {"TABANE_HTTP": "true", "TABANE_PORT": str(reserved_port(found))}
    found.write_servers({"child": found.child()})
    return found


def url_of(home: Home, scheme: str = "ws") -> str:
    return f"{scheme}://127.0.0.1:{home.environment['TABANE_PORT']}"


def token_of(home: Home) -> str:
    return (home.tabane / "token").read_text().strip()


@contextmanager
def connected(me: Home, elsewhere: Home, *flags: str) -> Iterator[Assistant]:
    with assistant(me, "--websocket", url_of(elsewhere), *flags, TABANE_TOKEN=token_of(elsewhere)) as found:
        yield found


def echoed(found: Assistant, text: str) -> str:
    """Send a text through the server behind the hub and return it."""
    back: str = json.loads(found.text("child__echo", text=text))["text"]
    return back


def test_every_tool_of_the_hub_is_there_with_its_token(me: Home, elsewhere: Home) -> None:
    with hub(elsewhere):
        with connected(me, elsewhere) as found:
            assert "search_tools" in found.tools()
            assert echoed(found, "日本 \U0001f4a9") == "日本 \U0001f4a9"
        with connected(me, elsewhere, "--mode", "full") as found:
            assert "child__echo" in found.tools()
        for flags in (["--url", url_of(elsewhere, "http") + "/mcp/full"], [f"--url={url_of(elsewhere)}/"]):
            with assistant(me, *flags, TABANE_TOKEN=token_of(elsewhere)) as found:
                assert ("child__echo" in found.tools()) is ("full" in flags[-1])
        by_variable = {"TABANE_URL": url_of(elsewhere), "TABANE_TOKEN": token_of(elsewhere)}
        with assistant(me, **by_variable) as found:
            assert "search_tools" in found.tools()
    assert not (me.tabane / "hub.sock").exists()


def test_the_token_of_ones_own_home_is_found(elsewhere: Home) -> None:
    with hub(elsewhere), assistant(elsewhere, "--websocket", url_of(elsewhere)) as found:
        assert "search_tools" in found.tools()
        # A file that others can read is no secret, and is not used.
        (elsewhere.tabane / "token").chmod(0o644)
        with assistant(elsewhere, "--websocket", url_of(elsewhere)) as found:
            assert "search_tools" not in found.tools()
        (elsewhere.tabane / "token").chmod(0o600)


def test_without_the_token_the_bridge_names_its_build(me: Home, elsewhere: Home) -> None:
    with hub(elsewhere):
        client = BridgeClient(me.environment, "--websocket", url_of(elsewhere))
        try:
            assert client.initialize()["result"]["serverInfo"]["version"] == this_build().name
        finally:
            client.close()


def test_without_the_token_the_archive_answers(me: Home, elsewhere: Home) -> None:
    with hub(elsewhere), assistant(me, "--websocket", url_of(elsewhere), LANG="ja_JP.UTF-8") as found:
        assert "search_similar" in found.tools()
        assert "search_tools" not in found.tools()
        assert "サーバータイプ: TwilogServer" in found.text("get_status")
        assert "総投稿数: 0件" in found.text("get_database_stats")
        found.client.end_input()
        assert found.client.wait(LONG) == 0
        assert "TABANE_TOKEN" in found.client.errors()


def test_a_hub_that_keeps_its_archive_to_itself_says_what_to_do(me: Home, elsewhere: Home) -> None:
    elsewhere.environment["TABANE_OPEN_ARCHIVE"] = "false"
    with hub(elsewhere), assistant(me, "--websocket", url_of(elsewhere)) as found:
        assert "token" in found.failure("get_status")


def test_a_wrong_token_is_refused_with_what_to_do(me: Home, elsewhere: Home) -> None:
    with hub(elsewhere):
        client = BridgeClient({**me.environment, "TABANE_TOKEN": "wrong"}, "--websocket", url_of(elsewhere))
        try:
            client.send(request(1, "initialize"))
            error = client.answer(1, LONG)["error"]
            assert "TABANE_TOKEN" in error["message"]
            assert client.wait(LONG) == 1
            assert "TABANE_TOKEN" in client.errors()
        finally:
            client.close()


@pytest.mark.parametrize("lang", ["C.UTF-8", "ja_JP.UTF-8"])
def test_connecting_gives_up_with_what_to_do(me: Home, lang: str) -> None:
    url = f"ws://127.0.0.1:{reserved_port(me)}"
    client = BridgeClient({**me.environment, "LANG": lang}, "--websocket", url)
    try:
        client.send(request(1, "initialize"))
        message = client.answer(1, LONG)["error"]["message"]
        assert "サーバーが起動していません" in message if "ja" in lang else "is not running" in message
        assert "tabane start" in message
        assert client.wait(LONG) == 1
    finally:
        client.close()


def test_a_server_that_never_answers_is_given_up(me: Home) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        client = BridgeClient({**me.environment, "TABANE_LANG": "ja"}, "--websocket",
                        f"ws://127.0.0.1:{deaf.getsockname()[1]}")  # fmt: skip
        try:
            client.send(request(1, "initialize"))
            assert "タイムアウト" in client.answer(1, LONG)["error"]["message"]
            assert client.wait(LONG) == 1
        finally:
            client.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("wss://127.0.0.1:1", "is not running"),
        ("ws://:x", "ws://host:port"),
        ("ftp://127.0.0.1", "ws://host:port"),
    ],
)
def test_an_address_that_cannot_be_used_says_so(me: Home, url: str, words: str) -> None:
    client = BridgeClient(me.environment, "--websocket", url)
    try:
        client.send(request(1, "initialize"))
        assert words in client.answer(1, LONG)["error"]["message"]
        assert client.wait(LONG) == 1
    finally:
        client.close()


def test_a_hub_that_restarts_is_found_again_and_every_request_answered_once(
    me: Home, elsewhere: Home
) -> None:
    with hub(elsewhere), connected(me, elsewhere) as found:
        assert echoed(found, "before") == "before"
        assert elsewhere.run("restart").status == 0
        assert echoed(found, "after") == "after"
        client = found.client
        client.send(*(request(f"n{number}", "tools/call", name="child__echo",
                              arguments={"text": str(number)}) for number in range(50)))  # fmt: skip
        assert elsewhere.run("restart").status == 0
        answered = [client.next(LONG) for _ in range(50)]
        assert {answer["id"] for answer in answered} == {f"n{number}" for number in range(50)}
        client.send(request("last", "ping"))
        assert client.next(LONG)["id"] == "last"


def test_notifications_reach_the_client(me: Home, elsewhere: Home) -> None:
    with hub(elsewhere), connected(me, elsewhere, "--mode", "full") as found:
        assert "other__echo" not in found.tools()
        elsewhere.write_servers({"child": elsewhere.child(), "other": elsewhere.child()})
        while found.client.next(LONG).get("method") != "notifications/tools/list_changed":
            pass


@pytest.mark.heavy("hubs and servers as processes")
def test_large_messages_pass_both_ways(me: Home, elsewhere: Home) -> None:
    text = "日本" * 1_000_000
    with hub(elsewhere), connected(me, elsewhere) as found:
        assert echoed(found, text) == text


# A server of the original


@pytest.fixture
def japanese(me: Home) -> Home:
    me.environment["LANG"] = "ja_JP.UTF-8"
    return me


def test_a_server_of_the_original_is_used_as_its_own_mcp_server_did(japanese: Home) -> None:
    with twilog_server() as server, assistant(japanese, "--websocket", f"ws://127.0.0.1:{server.port}") as it:
        assert set(it.tools()) >= {
            "search_similar", "get_status", "get_user_stats", "get_database_stats",
            "search_posts_by_text", "embed_text",
        }  # fmt: skip
        assert it.text(
            "search_similar", query="猫", top_k=3, user_filter={"includes": ["alice"]}, mode="content"
        ) == (
            '🔍 検索結果: 1件 (クエリ: "猫")\n\n'
            "1. [0.879] @alice (2024-03-15 14:30:25) https://twitter.com/alice/status/1\n"
            "   赤い猫\n   が家にいる\n"
        )
        assert server.asked[-1]["params"] == {
            "query": "猫",
            "mode": "content",
            "settings": {"top_k": 3, "user_filter": {"includes": ["alice"]}},
        }
        assert it.text("search_similar", query="nothing") == "検索結果が見つかりませんでした"
        assert "検索結果が見つかりませんでした" in it.text("search_posts_by_text", search_term="犬")
        assert "赤い猫" in it.text("search_posts_by_text", search_term="猫")
        assert "1. alice: 1,234投稿" in it.text("get_user_stats", limit=5)
        assert "総投稿数: 220,000件" in it.text("get_database_stats")
        assert "🟢" in it.text("get_status", websocket_url="ws://localhost:8765")
        assert f"先頭20文字）: {('QUJD' * 5)}..." in it.text("embed_text", text="x")
        assert "alice" in it.text("suggest_users", user_list=["alcie"])
        assert "検索クエリが指定されていません" in it.failure("search_similar", query=" ")
        assert it.ask("tools/call", name="put_document", arguments={})["error"]["code"] == -32602
        assert it.ask("prompts/list")["error"]["code"] == -32601
        assert it.ask("ping")["result"] == {}


def test_an_error_of_the_server_is_a_failed_call(japanese: Home) -> None:
    with twilog_server() as server, assistant(japanese, "--websocket", f"ws://127.0.0.1:{server.port}") as it:
        server.get_user_stats = None  # type: ignore[assignment,method-assign]
        assert "Method not found" in it.failure("get_user_stats")
        assert "limit" in it.failure("get_user_stats", limit=0)


def test_a_server_of_the_original_that_comes_back_is_used_again(japanese: Home) -> None:
    port = reserved_port(japanese)
    with twilog_server(port):
        client = assistant(japanese, "--websocket", f"ws://127.0.0.1:{port}")
        it = client.__enter__()
        assert "🟢" in it.text("get_status")
    try:
        gone = it.ask("tools/call", name="get_status", arguments={})
        assert "サーバーが起動していません" in gone["error"]["message"]
        with twilog_server(port):
            while "error" in it.ask("tools/call", name="get_status", arguments={}):
                pass
            assert "🟢" in it.text("get_status")
    finally:
        client.__exit__(None, None, None)


def test_what_is_neither_is_named(me: Home) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        client = BridgeClient(me.environment, "--websocket", f"ws://127.0.0.1:{server.server_port}")
        try:
            client.send(request(1, "initialize"))
            assert "is not a hub" in client.answer(1, LONG)["error"]["message"]
            assert client.wait(LONG) == 1
        finally:
            client.close()
            server.shutdown()


ROWS = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1 1
   1: 0100007F:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 2 1
   2: 0100007F:223E 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1003        0 3 1
   3: 00000000000000000000000000000000:2240 00000000000000000000000000000000:0000 0A 0 0 0  1004 0 4
"""


@pytest.mark.parametrize(
    ("host", "port", "uid"),
    [
        ("127.0.0.1", 8765, 1002),
        ("127.0.0.2", 8765, 1001),
        ("127.0.0.1", 8766, None),
        ("::1", 8768, 1004),
        ("127.0.0.1", 8768, 1004),
    ],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the rows are those of a little-endian machine")
def test_who_listens_at_a_port_is_read_off_the_tables_of_the_kernel(
    host: str, port: int, uid: int | None
) -> None:
    rows = [row.replace(" 0 0 0 ", " 0:0 00:0 0 ") for row in ROWS.splitlines()]
    assert listener_in(rows, SocketAddress(host, port)) == uid
