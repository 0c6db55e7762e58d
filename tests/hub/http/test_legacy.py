"""Clients of the handshake era: a session of many requests, and streams that outlive a connection."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tabane.hub.http.legacy import ResumableSession
from tabane.hub.http.stream import Pulse
from tests.harness.http_hub import HttpClient, call, http_hub, http_peer, request, text_of
from tests.harness.patience import pass_time, until
from tests.harness.running_hub import child

SERVERS = {"c": child()}
SMALL = str(Path(__file__).parents[2] / "harness" / "servers" / "small.py")
TOKEN = {"_meta": {"progressToken": "t"}}


def progress(number: Any, steps: int = 2) -> dict[str, Any]:
    message = call("c__progress", number, steps=steps)
    return {**message, "params": {**message["params"], **TOKEN}}


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
async def test_a_session_begins_with_initialize_and_ends_with_delete(tmp_path: Path, version: str) -> None:
    async with http_peer(tmp_path, SERVERS) as (here, peer):
        session = await here.session(peer, version)
        assert len(session["mcp_session_id"]) >= 22
        answer = await peer.post(call("c__echo", 1, text="hi"), **session)
        assert answer.status == 200
        assert text_of(answer.json) == {"text": "hi"}
        assert "resultType" not in answer.json["result"]
        headers = {name.replace("_", "-"): value for name, value in session.items()}
        peer.send("DELETE", "/mcp/full", headers)
        assert (await peer.answer()).status == 204
        gone = await peer.post(request("ping", number=2), **session)
        assert gone.status == 404
        assert len(here.hub.sessions) == 0


async def test_a_request_outside_a_session_is_refused_by_what_is_wrong_with_it(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (here, peer):
        session = await here.session(peer)
        assert (await peer.post(request("tools/list"))).status == 400
        assert (await peer.post(request("tools/list"), mcp_session_id="no-such")).status == 404
        wrong = await peer.post(request("ping"), **{**session, "mcp_protocol_version": "1999-01-01"})
        assert (wrong.status, wrong.code) == (400, -32022)
        unsaid = await peer.post(request("ping"), mcp_session_id=session["mcp_session_id"])
        assert (unsaid.status, unsaid.json["result"]) == (200, {})
        listening = await peer.get("/mcp/full", accept="application/json", **session)
        assert listening.status == 406
        refused = await peer.post(
            request("initialize", {"protocolVersion": "2025-06-18"}), mcp_session_id="no-such"
        )
        assert refused.status == 404


async def test_messages_that_are_not_answered_are_accepted(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (here, peer):
        session = await here.session(peer)
        for message in ({"method": "notifications/initialized"}, {"id": 9, "result": {}}):
            answer = await peer.post({"jsonrpc": "2.0", **message}, **session)
            assert (answer.status, answer.body) == (202, b"")


async def test_what_comes_before_the_answer_makes_it_a_stream_with_ids(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (here, peer):
        session = await here.session(peer)
        answer = await peer.begin(progress(7), **session)
        assert answer.streams
        prime = await peer.event()
        assert prime is not None
        assert prime.id
        assert prime.data == b""
        told = [await peer.message() for _ in range(3)]
        assert told[2]["id"] == 7
        assert await peer.event() is None
        assert peer._parser.retry == 1000


async def test_clients_before_2025_11_25_get_no_event_without_data(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (here, peer):
        session = await here.session(peer, "2025-06-18")
        assert (await peer.begin(progress(7), **session)).streams
        first = await peer.event()
        assert first is not None
        assert first.data
        assert first.id


async def test_a_slow_answer_becomes_a_stream_that_can_be_resumed(tmp_path: Path) -> None:
    """The connection breaks before there was a word; the call goes on, and its answer is fetched."""
    async with http_hub(tmp_path, SERVERS) as here:
        peer, again = await here.peer(), await here.peer()
        session = await here.session(peer)
        answer = await peer.begin(call("c__hang", 7), **session)
        assert answer.streams
        prime = await peer.event()
        assert prime is not None
        peer.abort()
        resumed = await again.get("/mcp/full", accept="text/event-stream", last_event_id=prime.id, **session)
        assert resumed.streams
        assert here.hub.status()["in_flight"] == 1
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await (await here.peer()).post(note, **session)).status == 202
        assert (await again.message())["id"] == 7
        assert await again.event() is None


async def test_a_stream_that_broke_gives_what_came_after_the_last_event_seen(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, again = await here.peer(), await here.peer()
        session = await here.session(peer)
        await peer.begin(progress(7, 3), **session)
        events = [await peer.event() for _ in range(5)]
        assert await peer.event() is None
        for seen in range(5):
            event = events[seen]
            assert event is not None
            answer = await again.get(
                "/mcp/full", accept="text/event-stream", last_event_id=event.id, **session
            )
            assert answer.streams
            got = []
            while (one := await again.event()) is not None:
                got.append(one)
            assert [one for one in got if one.data] == [one for one in events[seen + 1 :] if one and one.data]
        for bad in ("nonsense", "99-1", "1-x"):
            answer = await again.get("/mcp/full", last_event_id=bad, **session)
            assert answer.status == 400


async def test_a_client_that_goes_away_cancels_nothing(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, other = await here.peer(), await here.peer()
        session = await here.session(other)
        peer.send_message(call("c__hang", 1), **session)
        instance = here.hub.gateway.instances
        await until(lambda: any(i.in_flight for i in instance("c")), "the server has the call")
        peer.abort()
        assert (await other.post(call("c__echo", 2), **session)).status == 200
        assert any(i.in_flight for i in instance("c"))
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await other.post(note, **session)).status == 202
        await until(lambda: not any(i.in_flight for i in instance("c")), "the call is cancelled")


async def test_a_cancelled_request_ends_its_response(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, other = await here.peer(), await here.peer()
        session = await here.session(other)
        peer.send_message(call("c__hang", 1), **session)
        await until(lambda: here.hub.status()["in_flight"] == 1, "the call is in flight")
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await other.post(note, **session)
        answer = await peer.whole()
        assert (answer.status, answer.json["id"], answer.code) == (200, 1, -32800)


async def listen(peer: HttpClient, session: dict[str, str], **headers: str) -> int:
    return (await peer.get("/mcp/full", accept="text/event-stream", **session, **headers)).status


async def test_what_belongs_to_no_request_comes_on_the_stream_of_a_get(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, stream, second = await here.peer(), await here.peer(), await here.peer()
        session = await here.session(peer)
        await peer.post(request("tools/list", number=1), **session)
        assert await listen(stream, session) == 200
        prime = await stream.event()
        assert prime is not None
        assert await listen(second, session) == 409
        await peer.post(call("c__change_tools", 2, names=["echo", "change_tools"]), **session)
        changed = await stream.event()
        assert changed is not None
        assert b"list_changed" in changed.data
        # The stream breaks; what happens meanwhile is told when it is resumed, once.
        stream.abort()
        await until(lambda: here.door.connections == 2, "the hub has noticed")
        await peer.post(call("c__change_tools", 3, names=["change_tools"]), **session)
        assert changed.id
        assert await listen(second, session, last_event_id=changed.id) == 200
        assert (await second.message())["method"] == "notifications/tools/list_changed"


async def test_a_question_comes_on_the_stream_of_the_request_it_belongs_to(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS) as here:
        peer, other = await here.peer(), await here.peer()
        session = await here.session(peer, sampling={})
        asked = call("c__ask", 5, method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        assert (await peer.begin(asked, **session)).streams
        question = await peer.message()
        assert question["method"] == "sampling/createMessage"
        said = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": said}
        assert (await other.post(reply, **session)).status == 202
        answer = await peer.message()
        assert answer["id"] == 5
        assert "42" in str(answer["result"])


async def test_a_batch_is_answered_together_where_the_version_has_batches(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS) as (here, peer):
        old, new = await here.session(peer, "2025-03-26"), await here.session(peer)
        batch = [call("c__echo", 1, n=1), {"jsonrpc": "2.0", "method": "notifications/x"}, request("ping")]
        batch[2]["id"] = "two"
        answer = await peer.post(batch, **old)
        assert answer.status == 200
        assert {one["id"] for one in answer.json} == {1, "two"}
        streamed = await peer.begin([progress(3), request("ping", number=4)], **old)
        assert streamed.streams
        ids = [m["id"] for m in [await peer.message() for _ in range(4)] if "id" in m]
        assert sorted(ids) == [3, 4]
        assert await peer.event() is None
        assert (await peer.post(batch, **new)).status == 400
        assert (await peer.post([], **old)).status == 400
        twice = [request("ping", number=6), request("ping", number=6)]
        assert (await peer.post(twice, **old)).status == 400


async def test_an_id_in_use_is_refused_and_the_first_request_answered(tmp_path: Path) -> None:
    waiting = {"command": sys.executable, "args": [SMALL, str(tmp_path)]}
    async with http_hub(tmp_path, {"small": waiting}) as here:
        peer, other = await here.peer(), await here.peer()
        session = await here.session(other)
        peer.send_message(call("small__wait", 1), **session)
        await until((tmp_path / "waiting").exists, "the call is in flight")
        assert (await other.post(request("ping", number=1), **session)).status == 400
        (tmp_path / "go").touch()
        assert (await peer.reply())["id"] == 1  # a stream where the machine is slow


async def test_an_idle_session_ends_and_one_that_listens_does_not(tmp_path: Path) -> None:
    async with http_hub(tmp_path, http_idle=1) as here:
        peer, stream = await here.peer(), await here.peer()
        listening = await here.session(peer)
        assert await listen(stream, listening) == 200
        idle = await here.session(peer)
        pass_time(61)

        async def ended() -> bool:
            return len(here.hub.sessions) == 1

        await until(ended, "one session has ended")
        assert (await peer.post(request("ping"), **idle)).status == 404
        assert (await peer.post(request("ping"), **listening)).status == 200


async def test_the_session_idle_longest_gives_way_and_one_in_use_never(tmp_path: Path) -> None:
    async with http_peer(tmp_path, http_sessions=2) as (here, peer):
        streams = [await here.peer() for _ in range(2)]
        first, second = await here.session(peer), await here.session(peer)
        assert (await peer.post(request("ping"), **first)).status == 200
        third = await here.session(peer)
        assert (await peer.post(request("ping"), **second)).status == 404
        assert (await peer.post(request("ping"), **first)).status == 200
        for stream, session in zip(streams, (first, third), strict=True):
            assert await listen(stream, session) == 200
        full = await peer.post(request("initialize", {"protocolVersion": "2025-06-18"}))
        assert full.status == 503
        assert int(full.headers["retry-after"]) > 0


@pytest.mark.heavy("a hub with real servers")
async def test_a_client_that_does_not_read_is_waited_for_while_another_is_served_on(tmp_path: Path) -> None:
    async with http_hub(tmp_path, SERVERS, outbox=1 << 20) as here:
        peer, slow = await here.peer(), await here.peer(limit=1 << 10)
        session = await here.session(peer, "2025-03-26")
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        batch = [call("c__huge", number, bytes=1 << 20) for number in range(20)]
        slow.send_message(batch, accept="text/event-stream", **session)
        await until(lambda: here.door.connections == 2, "both are connected")
        assert (await peer.post(request("ping", number="p"), **session)).status == 200
        other = await here.session(peer)
        assert (await peer.post(call("c__echo", 1), **other)).status == 200
        slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await slow.head()
        answers = [await slow.message() for _ in batch]
        assert sorted(answer["id"] for answer in answers) == list(range(20))
        # One that had to wait for the client is given late, or fails alone; the client stays.
        dropped = [answer["error"]["message"] for answer in answers if "error" in answer]
        assert all("earlier answers" in message for message in dropped)


@pytest.mark.heavy("a hub with real servers")
async def test_a_batch_whose_answers_are_too_large_together_fails_in_part(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS, outbox=1 << 20) as (here, peer):
        session = await here.session(peer, "2025-03-26")
        batch = [call("c__huge", number, bytes=3 << 19) for number in range(8)]
        answer = await peer.post(batch, **session, accept="application/json")
        assert sorted(one["id"] for one in answer.json) == list(range(8))
        assert len([one for one in answer.json if "result" in one]) == 1
        errors = [one["error"]["message"] for one in answer.json if "error" in one]
        assert all("because the client has not read" in message for message in errors)


class Listening:
    """A stream of a client that has ``unsent`` bytes to read."""

    lost = False
    unsent = 0

    def __init__(self) -> None:
        self.events: list[bytes] = []

    def event(self, event: bytes) -> None:
        self.events.append(event)


async def test_what_is_held_back_from_a_slow_listener_comes_before_what_is_later() -> None:
    session = ResumableSession("s", Pulse(asyncio.get_running_loop()), 1 << 20, "local")
    session._listening = stream = cast("Any", Listening())
    for number, unsent in enumerate((0, 1 << 20, 1 << 20, 0, 0)):
        stream.unsent = unsent
        session.tell(b'{"jsonrpc":"2.0","method":"notifications/%d"}\n' % number, None)
    told = [int(event.partition(b"notifications/")[2][:1]) for event in stream.events]
    assert told == [0, 1, 2, 3, 4]


@pytest.mark.heavy("a hub with real servers")
async def test_an_answer_larger_than_the_outbox_is_given_whole(tmp_path: Path) -> None:
    async with http_peer(tmp_path, SERVERS, outbox=1 << 20) as (here, peer):
        session = await here.session(peer)
        answer = await peer.post(call("c__huge", 1, bytes=5 << 20), **session)
        assert len(answer.json["result"]["content"][0]["text"]) == 5 << 20
        streamed = await peer.begin(call("c__huge", 2, bytes=5 << 20), **session, accept="text/event-stream")
        assert streamed.streams
        assert len((await peer.message())["result"]["content"][0]["text"]) == 5 << 20
