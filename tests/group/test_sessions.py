"""Sessions of older clients in a group of hubs: any hub answers, and takes over from one that has gone."""

from __future__ import annotations

from pathlib import Path

from tabane.hub.http.authentication import HttpIdentities
from tabane.wire.era import LOG_LEVELS
from tests.harness.http_hub import HttpClient, call, request, text_of
from tests.harness.hub_group import hubs_in_group
from tests.harness.identities import GivenAccess, GivenTokens
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import child

SERVERS = {"c": child()}
EVENTS = "text/event-stream"


async def listen(peer: HttpClient, session: dict[str, str], **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in {**session, **headers}.items()}
    return (await peer.get("/mcp/full", accept=EVENTS, **named)).status


async def test_any_hub_answers_the_requests_of_a_session(tmp_path: Path, postgres: PostgresServer) -> None:
    async with hubs_in_group(tmp_path, postgres, "sessions", SERVERS) as group:
        first, second = group.hubs
        here, there, listening = await first.peer(), await second.peer(), await second.peer()
        session = await first.session(here, sampling={})
        assert text_of((await there.post(call("c__echo", 2, n=1), **session)).json) == {"n": 1}
        forged = {**session, "mcp_session_id": session["mcp_session_id"][:-2] + "AA"}
        assert (await there.post(request("ping"), **forged)).status == 404
        # A stream, a question on the stream of its call, and its answer, which comes to the other hub.
        assert await listen(listening, session) == 200
        await here.post(call("c__change_tools", 3, names=["change_tools", "ask"]), **session)
        assert (await listening.message())["method"] == "notifications/tools/list_changed"
        asked = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
        assert (await there.begin(call("c__ask", 5, **asked), **session)).streams
        question = await there.message()
        said = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": said}
        assert (await here.post(reply, **session)).status == 202
        assert "42" in str((await there.message())["result"])
        # The client goes away: the call ends at the hub that runs it.
        sessions = first.hub.sessions
        there.send_message(call("c__hang", 6), **session)
        await until(lambda: sessions.in_flight == 1, "the call runs")
        there.abort()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}}
        other = await second.peer()
        assert (await other.post(cancel, **session)).status == 202
        await until(lambda: sessions.in_flight == 0, "the call is cancelled")
        other.send("DELETE", "/mcp/full", {"mcp-session-id": session["mcp_session_id"]})
        assert (await other.answer()).status == 204
        await until(lambda: len(first.hub.sessions) == 0)
        assert (await other.post(request("ping"), **session)).status == 404


async def test_a_session_goes_on_at_another_hub_when_its_own_is_gone(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with hubs_in_group(tmp_path, postgres, "taken", SERVERS, 3) as group:
        first, second, third = group.hubs
        here, there, elsewhere = await first.peer(), await second.peer(), await third.peer()
        session, asking, resuming = [await first.session(here) for _ in range(3)]
        await here.post(request("logging/setLevel", {"level": "debug"}, 2), **session)
        await group.kill(0, postgres, "taken")
        await until(lambda: len(group.group(1).report()["hubs"]) == 2)
        answer = await there.post(call("c__echo", 3, n=1), **session)
        assert text_of(answer.json) == {"n": 1}
        taken = next(iter(second.hub.sessions))
        assert (taken.version, taken.calls.level) == ("2025-11-25", LOG_LEVELS.index("debug"))
        # The next hub finds the one that has it now.
        assert (await elsewhere.post(request("ping", number=4), **session)).json["result"] == {}
        assert len(third.hub.sessions) == 0
        # Answers and streams belong to what is lost.
        reply = {"jsonrpc": "2.0", "id": "q", "result": {}}
        assert (await there.post(reply, **asking)).status == 404
        assert (await there.post(request("ping", number=4), **asking)).status == 404
        assert await listen(there, resuming, last_event_id="3-9") == 404


async def test_the_owner_of_a_session_checks_an_access_token_again(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    tokens = GivenTokens(alice=GivenAccess("oauth:alice"), bob=GivenAccess("oauth:bob"))
    known = HttpIdentities(tokens=tokens)
    async with hubs_in_group(tmp_path, postgres, "tokens", SERVERS, identities=known) as group:
        first, second = group.hubs
        here, there = await first.peer(), await second.peer()
        client = {"name": "t", "version": "1"}
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        begun = await here.post(request("initialize", begin), authorization="Bearer alice")
        session = {"mcp_session_id": begun.headers["mcp-session-id"]}
        for subject, status in (("alice", 200), ("bob", 404)):
            bearer = {**session, "authorization": f"Bearer {subject}"}
            assert (await there.post(request("ping", number=2), **bearer)).status == status
        # What only hubs may say is refused from anybody else.
        claimed = {**session, "tabane_forwarded": "x.y"}
        assert (await here.post(request("ping", number=3), **claimed)).status == 403


async def test_a_hub_that_leaves_hands_its_sessions_over(tmp_path: Path, postgres: PostgresServer) -> None:
    async with hubs_in_group(tmp_path, postgres, "leaving", SERVERS) as group:
        first, second = group.hubs
        here, there = await first.peer(), await second.peer()
        session, asked = await first.session(here), await first.session(here, sampling={})
        asking = await first.peer()
        await asking.begin(
            call("c__ask", 9, method="sampling/createMessage", params={"messages": [], "maxTokens": 1}),
            **asked,
        )
        question = await asking.message()
        await group.group(0).announce("draining")
        assert (await here.get("/readyz")).status == 503
        assert (await here.post(request("ping", number=2), **session)).status == 200
        await group.group(0).announce("leaving")
        # Whatever comes to it is answered by the other one, which takes the session.
        assert (await here.post(request("ping", number=3), **session)).json["result"] == {}
        assert (await there.post(request("ping", number=4), **session)).json["result"] == {}
        # An answer goes to the hub that has asked, whose calls still run.
        said = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": said}
        assert (await there.post(reply, **asked)).status == 202
        assert "42" in str((await asking.message())["result"])
        assert [len(hub.hub.sessions) for hub in group.hubs] == [2, 1]
        begun = await first.session(here)
        assert (await there.post(request("ping", number=2), **begun)).status == 200
        assert [len(hub.hub.sessions) for hub in group.hubs] == [2, 2]
