"""The bridge between a real client process and a fake hub that the test controls."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tabane.build import this_build
from tabane.hub.local.connector import MOST_REPLACED
from tabane.hub.local.handshake import DRAIN, HelloRefused, Welcome
from tests.harness.bridge import (
    INITIALIZE,
    BridgeClient,
    BridgeConnection,
    FakeHub,
    answer,
    environment,
    fake_hub,
    playing,
    request,
    resident,
)
from tests.harness.patience import LONG, wait_until

Connect = Callable[..., BridgeClient]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def hub(home: Path) -> Iterator[FakeHub]:
    with fake_hub(home) as hub:
        yield hub


@pytest.fixture
def connect(home: Path) -> Iterator[Connect]:
    clients: list[BridgeClient] = []

    def start(*flags: str, stdin: int = -1, **variables: str) -> BridgeClient:
        clients.append(BridgeClient(environment(home, **variables), *flags, stdin=stdin))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def initialized(client: BridgeClient, line: BridgeConnection) -> None:
    """A session with its handshake done."""
    client.send(request(0, "initialize", **INITIALIZE))
    assert line.next()["method"] == "initialize"
    line.send(answer(0, {"protocolVersion": "2025-06-18"}))
    client.answer(0)
    client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert line.next()["method"] == "notifications/initialized"


def test_the_hello_says_who_connects(hub: FakeHub, connect: Connect, home: Path, tmp_path: Path) -> None:
    client = connect("--mode", "light", f"--servers={tmp_path}/s.json", LC_ALL="ja_JP.UTF-8")
    hello = hub.accept().hello
    assert hello._replace(pid=0) == hello.__class__(
        version=this_build().name,
        role="mcp",
        home=str(home),
        cwd=os.getcwd(),
        mode="light",
        lang="ja_JP.UTF-8",
        servers=f"{tmp_path}/s.json",
        code=this_build().code,
    )
    assert hello.pid == client.pid


def test_lines_pass_as_they_are_written(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    odd = (
        '{ "params":{"x":[1e400,-0.0,"\\ud83d"],"é":"日本"},"jsonrpc" : "2.0","method":"m","id":"a\\u0062" }'
    )
    client.send(odd.encode())
    assert line.lines.next() == odd.encode()
    said = '{"jsonrpc":"2.0","id":"a\\u0062","result":{"big":12345678901234567890123, "t" : "\\udc00日"}}'
    line.send(said.encode())
    assert client.out.next() == said.encode()


def test_blank_lines_and_windows_line_ends_do_no_harm(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    client.send(b"", b"  ", request(1) + b"\r")
    assert line.next()["id"] == 1
    line.send(answer(1))
    assert client.next()["id"] == 1


def test_what_was_in_flight_when_the_hub_died_gets_one_error_and_what_follows_the_next_hub(
    hub: FakeHub, connect: Connect, home: Path
) -> None:
    client = connect()
    line = hub.accept()
    initialized(client, line)
    client.send(request(1), request("two"))
    assert [line.next()["id"], line.next()["id"]] == [1, "two"]
    line.send(answer(1))
    assert "result" in client.answer(1)
    hub.die()
    error = client.next()
    assert error["id"] == "two"
    assert error["error"]["code"] == -32603
    assert error["error"]["data"] == {"reason": "hub"}
    assert "was being handled" in error["error"]["message"]
    with fake_hub(home) as second:
        client.send(request(3))
        line = second.accept()
        replayed = line.next()
        assert (replayed["method"], replayed["params"]) == ("initialize", INITIALIZE)
        assert line.next()["method"] == "notifications/initialized"
        assert line.next()["id"] == 3
        line.send(answer(replayed["id"]), answer(3))
        assert client.next() == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_errors_are_said_in_the_language_of_the_client(hub: FakeHub, connect: Connect) -> None:
    client = connect(TABANE_LANG="ja")
    line = hub.accept()
    assert line.hello.lang == "ja"
    client.send(request(1))
    line.next()
    hub.die()
    assert client.next()["error"]["data"]["reason"] == "hub"


def test_a_handshake_cut_off_by_the_end_of_the_hub_is_begun_again(
    hub: FakeHub, connect: Connect, home: Path
) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(0, "initialize", **INITIALIZE))
    line.next()
    with playing(hub.succeeded()) as second:
        line = second.accept()
        assert line.next()["id"] == 0
        line.send(answer(0, {"protocolVersion": "2025-06-18"}))
        assert client.next()["result"] == {"protocolVersion": "2025-06-18"}


def test_a_bridge_comes_back_by_itself_so_that_the_hub_can_notify(
    hub: FakeHub, connect: Connect, home: Path
) -> None:
    client = connect()
    initialized(client, hub.accept())
    hub.die()
    with fake_hub(home) as second:
        line = second.accept()
        assert line.next()["method"] == "initialize"
        line.send(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        assert client.next()["method"] == "notifications/tools/list_changed"


def test_half_a_line_of_a_hub_that_died_does_not_reach_the_client(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    line.peer.sendall(answer(1)[:-5])
    hub.die()
    assert client.next()["error"]["code"] == -32603


def test_a_draining_hub_is_sent_no_more_requests_and_its_last_answers_come(
    hub: FakeHub, connect: Connect, home: Path
) -> None:
    client = connect()
    line = hub.accept()
    initialized(client, line)
    client.send(request(1))
    line.next()
    line.send(DRAIN.rstrip(), b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}')
    assert client.next()["method"] == "notifications/progress"
    later = "notifications/roots/list_changed"
    client.send(request(2), b'{"jsonrpc":"2.0","method":"%s"}' % later.encode())
    assert line.next()["method"] == later
    line.send(answer(1))
    assert "result" in client.answer(1)
    with pytest.raises(EOFError):
        line.lines.next()
    with playing(hub.succeeded()) as second:
        line = second.accept()
        assert [line.next().get("method") for _ in range(2)] == ["initialize", "notifications/initialized"]
        assert line.next()["id"] == 2
        line.send(answer(2))
        assert "result" in client.answer(2)


def test_a_request_that_a_draining_hub_did_not_begin_goes_to_the_next_one(
    hub: FakeHub, connect: Connect, home: Path
) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    line.send(
        DRAIN.rstrip(),
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"ends","data":{"reason":"draining"}}}',
    )
    with pytest.raises(EOFError):
        line.lines.next()
    with playing(hub.succeeded()) as second:
        line = second.accept()
        assert line.next()["id"] == 1
        line.send(answer(1))
        assert client.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_question_of_a_hub_that_died_is_withdrawn_and_its_answer_kept_from_the_next(
    hub: FakeHub, connect: Connect, home: Path
) -> None:
    client = connect()
    line = hub.accept()
    line.send(b'{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}')
    assert client.next()["method"] == "elicitation/create"
    hub.die()
    withdrawn = client.next()
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", 1)
    with fake_hub(home) as second:
        line = second.accept()
        client.send(answer(1), request(5))
        assert line.next()["id"] == 5


def test_a_cancelled_request_is_not_waited_for(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    client.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    assert line.next()["method"] == "notifications/cancelled"
    client.end_input()
    assert client.wait() == 0


def test_answers_in_flight_come_out_after_the_client_has_closed_its_input(
    hub: FakeHub, connect: Connect
) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    client.end_input()
    line.send(answer(1))
    assert "result" in client.next()
    assert client.wait() == 0


def test_a_last_line_without_its_newline_counts(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    assert client.process.stdin is not None
    client.process.stdin.write(request(1))
    client.end_input()
    assert line.next()["id"] == 1
    line.send(answer(1))
    assert "result" in client.next()
    assert client.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_in_flight_be_answered(
    hub: FakeHub, connect: Connect, number: signal.Signals
) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    client.process.send_signal(number)
    line.send(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}', answer(1))
    assert "result" in client.answer(1)
    assert client.wait() == (130 if number == signal.SIGINT else 0)


def test_a_second_signal_ends_at_once(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    client.process.send_signal(signal.SIGTERM)
    # It is seen to have come by the bridge reading no more requests.
    wait_until(lambda: _unread(client), "the bridge stops reading")
    client.process.send_signal(signal.SIGTERM)
    assert client.wait() == 0
    assert client.next()["error"]["data"]["reason"] == "hub"


def _unread(client: BridgeClient) -> bool:
    """Send a request, and return whether the bridge sleeps on although the request has come to its input."""
    client.send(request(2))
    assert client.process.stdin is not None
    there = array.array("i", [0])
    wait_until(lambda: psutil.Process(client.pid).status() == psutil.STATUS_SLEEPING, "the bridge rests")
    fcntl.ioctl(client.process.stdin, termios.FIONREAD, there)
    return there[0] > 0


def test_a_client_that_is_gone_ends_the_bridge(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    assert client.process.stdout is not None
    client.process.stdout.close()
    assert client.wait() == 0


def test_a_file_as_standard_input_is_served_to_its_end(
    hub: FakeHub, connect: Connect, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(b"".join(request(number) + b"\n" for number in range(300)))
    with (tmp_path / "in").open("rb") as source:
        client = connect(stdin=source.fileno())
    line = hub.accept()
    for number in range(300):
        assert line.next()["id"] == number
        line.send(answer(number))
    assert [json.loads(said)["id"] for said in client.out.rest()] == list(range(300))
    assert client.wait() == 0


def test_long_lines_pass_both_ways(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    text = "束" * (3 << 20)
    reader = _in_thread(lambda: client.send(request(1, text=text)))
    assert line.next()["params"]["text"] == text
    reader()
    writer = _in_thread(lambda: line.send(answer(1, {"text": text})))
    assert client.answer(1)["result"]["text"] == text
    writer()


def test_a_line_past_the_limit_is_answered_and_the_next_one_served(hub: FakeHub, connect: Connect) -> None:
    hub.welcome = Welcome(this_build().name, 1, None, max_line=10_000)
    client = connect()
    line = hub.accept()
    client.send(request(7, text="x" * 20_000), request(8))
    assert line.next()["id"] == 8
    assert client.next()["error"]["code"] == -32600


def test_a_client_that_reads_slowly_costs_no_memory_and_loses_nothing(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    client.send(request(1))
    line.next()
    before = resident(client.pid)
    note = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%s"}}' % (b"x" * 10_000)
    writer = _in_thread(lambda: line.send(*[note] * 4000, answer(1)))
    wait_until(lambda: _still(client), "the bridge waits for the client")
    assert resident(client.pid) - before < 8
    for _ in range(4000):
        assert client.out.next() == note
    assert "result" in client.next()
    writer()
    assert resident(client.pid) - before < 8


def _still(client: BridgeClient, seconds: float = 0.2) -> bool:
    """Whether a process does nothing for a while. Others make it wake up at times, so ask several times."""
    process = psutil.Process(client.pid)
    before = process.num_ctx_switches()
    with pytest.raises(psutil.TimeoutExpired):
        process.wait(seconds)
    return process.num_ctx_switches() == before and process.status() == psutil.STATUS_SLEEPING


def test_a_refusal_names_the_reason_to_every_request_and_ends_the_bridge(
    hub: FakeHub, connect: Connect
) -> None:
    client = connect(LC_ALL="ja_JP.UTF-8")
    client.send(request(0, "initialize", **INITIALIZE))
    hub.accept(HelloRefused("servers", {"en": "serves /a.json, not /b.json", "ja": "/a.json と /b.json"}))
    assert client.next() == {
        "jsonrpc": "2.0",
        "id": 0,
        "error": {"code": -32603, "message": "/a.json と /b.json", "data": {"reason": "hub"}},
    }
    assert client.wait() == 1
    assert "/a.json と /b.json" in client.errors()


def test_an_older_hub_is_asked_to_make_way(home: Path, connect: Connect) -> None:
    with fake_hub(home, "0.0.1") as old:
        client = connect()
        first = old.accept()
        assert first.hello.role == "mcp"
        second = old.accept()
        assert (second.hello.role, second.hello.version) == ("replace", this_build().name)
        with playing(old.succeeded()) as new:
            client.send(request(1))
            line = new.accept()
            assert line.next()["id"] == 1
            line.send(answer(1))
            assert "result" in client.next()


def test_an_older_hub_that_was_quicker_to_follow_is_asked_too(home: Path, connect: Connect) -> None:
    with fake_hub(home, "0.0.1") as old:
        client = connect()
        old.accept()
        assert old.accept().hello.role == "replace"
        with playing(old.succeeded("0.0.1")) as other:
            other.accept()
            assert other.accept().hello.role == "replace"
            with playing(other.succeeded()) as new:
                client.send(request(1))
                assert new.accept().next()["id"] == 1


def test_hubs_that_stay_older_are_used_in_the_end(home: Path, connect: Connect) -> None:
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(fake_hub(home, "0.0.1"))
        client = connect()
        for _ in range(MOST_REPLACED):
            hub.accept()
            assert hub.accept().hello.role == "replace"
            hub = stack.enter_context(playing(hub.succeeded("0.0.1")))
        client.send(request(1))
        assert hub.accept().next()["id"] == 1


def test_an_older_hub_that_stays_is_used(home: Path, connect: Connect) -> None:
    with fake_hub(home, "0.0.1") as old:
        client = connect()
        old.accept()
        old.accept(HelloRefused("standalone", {"en": "no"}))
        line = old.accept()
        assert line.hello.role == "mcp"
        client.send(request(1))
        assert line.next()["id"] == 1


def test_a_newer_hub_is_used_as_it_is(home: Path, connect: Connect) -> None:
    with fake_hub(home, "99.0") as new:
        client = connect()
        line = new.accept()
        client.send(request(1))
        assert line.next()["id"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="missing: Linux (memory is counted otherwise elsewhere)")
def test_a_bridge_stays_small(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    initialized(client, hub.accept())
    assert resident(client.pid) < 14.5


@pytest.mark.everything("a limit in seconds of CPU, which a busy machine makes longer")
def test_a_bridge_starts_fast(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    initialized(client, hub.accept())
    assert sum(psutil.Process(client.pid).cpu_times()[:2]) < 0.15  # 0.05 on a quiet machine


def _in_thread(work: Callable[[], object]) -> Callable[[], None]:
    import threading

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def finish() -> None:
        thread.join(LONG)
        assert not thread.is_alive()

    return finish


def test_requests_over_many_deaths_of_the_hub_are_each_answered_once(home: Path, connect: Connect) -> None:
    """A hub that dies ten times under load: one answer to every request, a good one after each death."""
    hub = FakeHub(home)
    client = connect()
    line = hub.accept()
    initialized(client, line)
    answers: dict[object, int] = {}
    for round_ in range(10):
        last = f"after {round_}"
        client.send(*(request(40 * round_ + n) for n in range(40)))
        for _ in range(5 + 3 * round_):
            line.send(answer(line.next()["id"]))
        hub = hub.succeeded()
        line = hub.accept()
        client.send(request(last))
        asked: object = None
        while asked != last:
            asked = line.next().get("id")
            if asked is not None:
                line.send(answer(asked))
        while last not in answers:
            found = client.next()
            assert found["id"] != last or "result" in found
            answers[found["id"]] = answers.get(found["id"], 0) + 1
    hub.die()
    lasts = [f"after {round_}" for round_ in range(10)]
    assert answers == dict.fromkeys([*range(400), *lasts], 1)


def test_no_time_is_spent_while_nobody_asks(hub: FakeHub, connect: Connect) -> None:
    client = connect()
    line = hub.accept()
    initialized(client, line)
    wait_until(lambda: _still(client, 1.0), "it does nothing")
