"""Real hubs, bridges and commands: how they start, end, and find each other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.bridge import INITIALIZE, Lines, request
from tests.harness.patience import LONG, wait_until
from tests.harness.process_list import command
from tests.harness.user import User, echo, said


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = User(tmp_path)
    yield user
    user.close()


@pytest.mark.heavy("a hub with real servers")
def test_two_bridges_at_once_start_one_hub(user: User) -> None:
    clients = [user.client() for _ in range(4)]
    for client in clients:
        client.send(request(0, "initialize", **INITIALIZE))
    for client in clients:
        assert client.answer(0)["result"]["serverInfo"]["name"] == "tabane"
    assert user.json("status")["sessions"] == 4

    def hubs() -> list[int]:
        return [process.pid for process in user.processes() if "_hub" in command(process)]

    # Those that lost end by themselves, in their own time.
    wait_until(lambda: hubs() == [user.holder.pid], "one hub is left")


def test_assistants_share_the_upstreams(user: User) -> None:
    one, two = user.assistant(), user.assistant()
    pids = [client.call(1, name="small__pid")["result"]["content"][0]["text"] for client in (one, two)]
    assert pids[0] == pids[1]


def test_a_start_that_fails_says_why_and_ends(user: User) -> None:
    user.servers.write_text('{"mcpServers": {,}}')
    done = user.run("start")
    assert done.status == 1
    assert f"{user.servers}:1:" in done.err
    assert done.out == ""
    user.gone()


def test_a_wrong_setting_is_told_before_anything_starts(user: User) -> None:
    done = user.run("start", "--grace", "soon")
    assert done.status == 1
    assert "--grace" in done.err
    assert not user.tabane.exists()


def test_a_bridge_whose_hub_cannot_start_answers_with_the_reason(user: User) -> None:
    user.servers.write_text("[]")
    client = user.client(LC_ALL="ja_JP.UTF-8")
    client.send(request(0, "initialize", **INITIALIZE))
    error = client.answer(0)["error"]
    assert error["data"] == {"reason": "hub"}
    assert str(user.servers) in error["message"]
    assert client.wait() == 1
    assert error["message"] in client.errors()


def test_start_status_restart_stop(user: User, tmp_path: Path) -> None:
    other = user.write_servers(user.small, tmp_path / "other.json")
    assert user.run("status").status == 1
    started = user.json("start", f"--servers={other}", "--lang=ja", "--no-keyring")
    assert started["started"] is True
    report = user.json("status")
    assert (report["status"], report["pid"], report["started_by"]) == ("running", started["pid"], "hand")
    assert report["servers_file"] == str(other)
    flags = [f"--servers={other}", "--lang=ja", "--no-keyring"]
    assert sorted(report["flags"]) == sorted(flags)
    assert user.json("start")["started"] is False
    assert user.json("restart")["pid"] != started["pid"]
    again = user.json("status", "--settings")
    assert sorted(again["flags"]) == sorted(flags)
    lang = next(setting for setting in again["settings"] if setting["name"] == "lang")
    assert (lang["value"], lang["source"]) == ("ja", "flag")
    assert user.json("stop") == {"status": "stopped", "was_running": True}
    user.gone()
    assert user.json("stop")["was_running"] is False


def test_a_start_with_other_flags_than_the_running_hub_says_so(user: User, tmp_path: Path) -> None:
    user.json("start", "--lang=ja")
    done = user.run("start", "--lang=en")
    assert done.status == 1
    assert "with --lang=ja, not with --lang=en" in done.err


def test_another_servers_file_than_the_running_hubs_is_an_error_that_names_both(
    user: User, tmp_path: Path
) -> None:
    user.json("start")
    other = user.write_servers(user.small, tmp_path / "other.json")
    done = user.run("start", f"--servers={other}")
    assert done.status == 1
    assert str(other) in done.err
    assert str(user.servers) in done.err
    client = user.client(TABANE_SERVERS=str(other))
    client.send(request(0, "initialize", **INITIALIZE))
    message = client.answer(0)["error"]["message"]
    assert str(other) in message
    assert str(user.servers) in message
    assert client.wait() == 1


def test_stop_ends_the_upstreams_too(user: User) -> None:
    client = user.assistant()
    pid = int(client.call(1, name="small__pid")["result"]["content"][0]["text"])
    client.close()
    assert user.run("stop").status == 0
    assert not psutil.pid_exists(pid)
    user.gone()


def test_a_stop_ends_although_an_assistant_goes_on_asking(user: User) -> None:
    user.json("start")
    client = user.assistant()
    pid = user.holder.pid
    stop = subprocess.Popen([sys.executable, "-m", "tabane", "stop"], env=user.environment)
    number = 0
    while stop.poll() is None or user.holder.pid == pid:
        number += 1
        assert said(echo(client, number, n=number)) == {"n": number}
    assert stop.returncode == 0


def test_a_start_that_failed_leaves_no_trace_of_its_flags(user: User) -> None:
    user.json("start", "--lang=ja")
    client = user.assistant()
    user.kill_hub()
    wait_until(lambda: not user.runs, "the hub is dead")
    good = user.servers.read_text()
    user.servers.write_text("{")
    assert "error" in client.call(1, "tools/list")
    assert user.run("start", "--lang=en").status == 1
    user.servers.write_text(good)
    user.assistant()
    assert user.holder.flags == ("--lang=ja",)


def test_after_a_stop_the_next_request_starts_a_hub(user: User) -> None:
    client = user.assistant()
    assert said(echo(client, 1, n=1)) == {"n": 1}
    user.run("stop")
    assert not user.runs
    assert said(echo(client, 2, n=2)) == {"n": 2}
    assert user.runs


def test_a_hub_killed_under_a_bridge_costs_what_was_in_flight_and_no_more(user: User) -> None:
    client = user.assistant()
    client.send(request(1, name="small__wait"))
    wait_until((user.folder / "waiting").exists, "the call is in flight")
    user.kill_hub()
    assert client.answer(1)["error"]["data"] == {"reason": "hub"}
    assert said(echo(client, 2, n=2)) == {"n": 2}


def test_a_hub_started_for_one_that_was_killed_has_its_flags(user: User) -> None:
    user.json("start", "--lang=ja")
    client = user.assistant()
    user.kill_hub()
    wait_until(lambda: not user.runs, "the hub is dead")
    assert "result" in client.call(1, "tools/list")
    report = user.json("status")
    assert (report["flags"], report["started_by"]) == (["--lang=ja"], "hand")


def test_a_restart_under_load_loses_nothing_at_all(user: User) -> None:
    user.json("start")
    client = user.assistant()
    echo(client, "warm")
    answers: list[object] = []
    count = 400

    def read() -> None:
        for _ in range(count):
            answer = client.next()
            answers.append((answer["id"], said(answer) if "result" in answer else answer))

    reader = threading.Thread(target=read)
    reader.start()
    restart: subprocess.Popen[bytes] | None = None
    for number in range(count):
        client.send(request(number, name="small__echo", arguments={"n": number}))
        if number % 100 == 50:
            assert restart is None or restart.wait(LONG) == 0
            command = [sys.executable, "-m", "tabane", "restart"]
            restart = subprocess.Popen(command, env=user.environment, stdout=subprocess.DEVNULL)
    assert restart is not None
    assert restart.wait(LONG) == 0
    reader.join(4 * LONG)
    assert sorted(answers, key=str) == sorted(((n, {"n": n}) for n in range(count)), key=str)


def test_every_request_over_several_kills_is_answered_once(user: User) -> None:
    client = user.assistant()
    answers: dict[int, list[bool]] = {}
    number = 0
    for _ in range(4):
        burst = range(number, number + 60)
        number += 60
        client.send(*(request(n, name="small__echo", arguments={"n": n}) for n in burst))
        user.kill_hub()
        for _ in burst:
            answer = client.next()
            answers.setdefault(answer["id"], []).append("result" in answer)
        after = echo(client, "after", n="after")
        if "error" in after:  # all were answered before the bridge knew of the death
            assert after["error"]["data"] == {"reason": "hub"}
            after = echo(client, "again", n="after")
        assert said(after) == {"n": "after"}
    assert sorted(answers) == list(range(number))
    assert all(len(found) == 1 for found in answers.values())
    client.close()
    user.run("stop")
    user.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_hub_finish_what_is_in_flight(user: User, number: int) -> None:
    client = user.assistant()
    client.send(request(1, name="small__wait", arguments={"n": 1}))
    wait_until((user.folder / "waiting").exists, "the call is in flight")
    user.kill_hub(number)
    wait_until(lambda: not (user.tabane / "hub.sock").exists(), "the hub takes nobody any more")
    (user.folder / "go").touch()
    assert said(client.answer(1)) == {"n": 1}
    wait_until(lambda: not user.runs, "the hub ends")
    client.close()
    user.gone()


def test_a_second_signal_ends_the_hub_at_once(user: User) -> None:
    client = user.assistant()
    client.send(request(1, name="small__wait"))
    wait_until((user.folder / "waiting").exists, "the call is in flight")
    user.kill_hub(signal.SIGTERM)
    wait_until(lambda: not (user.tabane / "hub.sock").exists(), "the first signal was heard")
    user.kill_hub(signal.SIGTERM)
    assert client.answer(1)["error"]["data"]["reason"] in ("hub", "upstream")
    client.close()
    user.gone()


def test_a_hub_that_nobody_uses_ends_if_a_bridge_started_it(user: User) -> None:
    client = user.assistant(TABANE_IDLE_END="0.005")
    pid = user.holder.pid
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(pid).wait(0.8)
    assert "result" in client.call(1, "tools/list")
    client.close()
    wait_until(lambda: not user.runs, "the hub ends")
    assert (user.holder.pid, user.holder.ended) == (pid, "idle")
    user.gone()


def test_a_hub_started_by_hand_outlasts_idleness(user: User) -> None:
    user.environment["TABANE_IDLE_END"] = "0.002"
    user.json("start")
    process = psutil.Process(user.holder.pid)
    with pytest.raises(psutil.TimeoutExpired):
        process.wait(0.6)
    user.json("stop")


def test_start_by_hand_keeps_a_hub_that_a_bridge_started(user: User) -> None:
    user.assistant().close()
    assert user.holder.started_by == "bridge"
    assert user.json("start")["started"] is False
    assert user.holder.started_by == "hand"


def test_a_standalone_hub_serves_others_too_and_ends_with_its_client(user: User) -> None:
    first = user.assistant("--standalone")
    assert (user.holder.pid, user.holder.started_by) == (first.pid, "standalone")
    assert said(echo(first, 1, n=1)) == {"n": 1}
    second = user.assistant("--standalone")
    assert said(echo(second, 1, n=2)) == {"n": 2}
    assert user.json("status")["sessions"] == 2
    second.end_input()
    assert second.wait() == 0
    first.end_input()
    assert first.wait() == 0
    user.gone()


def test_a_standalone_hub_answers_what_it_was_asked_before_its_input_ended(user: User) -> None:
    (user.folder / "in").write_bytes(
        b"\n".join(
            [request(0, "initialize", **INITIALIZE), request(1, name="small__echo", arguments={"n": 1})]
        )
    )
    with (user.folder / "in").open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-m", "tabane", "mcp", "--standalone"],
            stdin=source,
            env=user.environment,
            capture_output=True,
            timeout=60,
        )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1]
    assert said(json.loads(done.stdout.splitlines()[1])) == {"n": 1}
    assert done.returncode == 0
    user.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_standalone_hub_leaves_nothing_however_it_is_ended(user: User, number: int) -> None:
    client = user.assistant("--standalone")
    echo(client, 1)
    client.process.send_signal(number)
    assert client.wait() == (-number if number == signal.SIGKILL else 0)
    user.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_bridge_that_is_ended_leaves_its_session(user: User, number: int) -> None:
    user.json("start")
    client = user.assistant()
    assert user.json("status")["sessions"] == 1
    client.process.send_signal(number)
    client.wait()
    wait_until(lambda: user.json("status")["sessions"] == 0, "the session is over")


def test_a_foreground_hub_ends_at_ctrl_c(user: User) -> None:
    command = [sys.executable, "-m", "tabane", "start", "--foreground"]
    process = subprocess.Popen(command, env=user.environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stderr is not None
    log = Lines(process.stderr.fileno())
    while b"runs as process" not in log.next():
        pass
    assert user.run("start", "--foreground").status == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG) == 130
    assert process.stdout is not None
    assert process.stdout.read() == b""
    user.gone()


def test_what_tabane_writes_is_its_users_alone(user: User) -> None:
    user.environment["TABANE_LOG_LEVEL"] = "debug"
    client = user.assistant()
    echo(client, 1)
    assert stat.S_IMODE(user.tabane.stat().st_mode) == 0o700
    for path in user.tabane.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_home_whose_path_is_too_long_for_a_socket_works_from_any_environment(tmp_path: Path) -> None:
    user = User(tmp_path, "h" * 120)
    user.environment["TMPDIR"] = str(tmp_path)
    try:
        client = user.assistant()
        assert said(echo(client, 1, n=1)) == {"n": 1}
        del user.environment["TMPDIR"]
        report = user.json("status")
        assert len(os.fsencode(report["socket"])) < 104
        assert stat.S_IMODE(Path(report["socket"]).parent.stat().st_mode) == 0o700
        assert said(echo(user.assistant(), 1, n=2)) == {"n": 2}
        user.run("stop")
    finally:
        user.close()


def test_a_socket_left_by_a_hub_that_was_killed_is_no_obstacle(user: User) -> None:
    user.json("start")
    user.kill_hub()
    wait_until(lambda: not user.runs, "the hub is dead")
    assert (user.tabane / "hub.sock").exists()
    assert user.json("start")["started"] is True


def test_a_hub_that_does_not_answer_is_ended_all_the_same(user: User) -> None:
    user.json("start")
    user.kill_hub(signal.SIGSTOP)
    assert user.json("stop")["was_running"] is True
    user.gone()


def test_the_log_is_shown_and_followed(user: User) -> None:
    assert user.run("logs").status == 1
    user.json("start")
    assert f"runs as process {user.holder.pid}" in user.run("logs", "-n", "5").out
    assert user.json("logs", "-n", "1")["log"] == str(user.tabane / "logs" / "hub.log")
    command = [sys.executable, "-m", "tabane", "logs", "-f", "-n", "1"]
    process = subprocess.Popen(command, env=user.environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        lines = Lines(process.stdout.fileno())
        lines.next()
        user.json("restart")
        while b"the hub ends: restart" not in lines.next():
            pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_errors_of_methods_reach_the_command_line_as_what_they_are(user: User) -> None:
    unknown = user.run("rpc", "no_such_method")
    assert (unknown.status, "no_such_method" in unknown.err) == (2, True)
    wrong = user.run("rpc", "search_tools", "--params", '{"query": 1}')
    assert (wrong.status, "query" in wrong.err) == (2, True)
    broken = user.run("rpc", "hub_status", "--params", "{")
    assert (broken.status, "--params" in broken.err) == (2, True)
    assert user.json("rpc", "hub_status")["status"] == "running"


def test_another_hub_is_reached_by_its_address(user: User, tmp_path: Path) -> None:
    user.json("start")
    (tmp_path / "elsewhere").mkdir()
    stranger = User(tmp_path / "elsewhere")
    try:
        assert stranger.json("status", "--url", f"unix:{user.tabane}")["pid"] == user.holder.pid
        client = stranger.assistant(f"--url=unix:{user.tabane}")
        assert said(echo(client, 1, n=1)) == {"n": 1}
        assert stranger.run("status", "--url", "gopher://127.0.0.1:8765").status == 2
        assert not stranger.tabane.exists()
    finally:
        stranger.close()


def test_a_hub_that_a_bridge_started_shares_nothing_with_it(user: User) -> None:
    """Neither family nor session, nor descriptors that the client left open, nor a folder to import from."""
    user.tabane.mkdir(mode=0o700)
    (user.tabane / "asyncio.py").write_text("raise SystemExit('imported from the home')")
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "tabane", "mcp"]
    bridge = subprocess.Popen(
        command, env=user.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[write_end]
    )
    os.close(write_end)
    try:
        assert bridge.stdout is not None
        assert bridge.stdin is not None
        bridge.stdin.write(request(0, "initialize", **INITIALIZE) + b"\n")
        bridge.stdin.flush()
        assert b'"result"' in Lines(bridge.stdout.fileno()).next()
        hub = user.holder.pid
        assert psutil.Process(hub).ppid() != bridge.pid
        assert os.getpgid(hub) != os.getpgid(bridge.pid)
        assert os.getsid(hub) != os.getsid(bridge.pid)
    finally:
        bridge.kill()
        bridge.communicate()
    with pytest.raises(EOFError):
        Lines(read_end).next()
    os.close(read_end)
    assert user.runs


def test_a_bridge_whose_folder_was_deleted_works(user: User) -> None:
    folder = user.folder / "deleted"
    folder.mkdir()
    script = f'cd "{folder}" && rmdir "{folder}" && exec "{sys.executable}" -P -m tabane mcp'
    process = subprocess.run(
        ["sh", "-c", script],
        env=user.environment,
        input=request(0, "initialize", **INITIALIZE),
        capture_output=True,
        timeout=60,
    )
    assert json.loads(process.stdout)["id"] == 0
    assert "result" in json.loads(process.stdout)


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_hub_whose_home_was_deleted_ends_and_leaves_the_next_one_alone(user: User) -> None:
    user.json("start")
    witness = user.assistant()
    assert said(echo(witness, 1, n=1)) == {"n": 1}
    old, before = user.holder.pid, psutil.Process(user.holder.pid)
    shutil.rmtree(user.tabane)
    started = user.json("start")
    assert started["started"] is True
    assert started["pid"] != old
    socket = (user.tabane / "hub.sock").stat()
    wait_until(lambda: ended(old) or not before.is_running(), "the hub without a home ends", 60)
    assert os.path.samestat((user.tabane / "hub.sock").stat(), socket)
    assert user.json("status")["pid"] == started["pid"]
    assert said(echo(witness, 2, n=2)) == {"n": 2}


def test_a_hub_whose_home_was_deleted_ends_unasked_and_makes_none(user: User) -> None:
    pid = user.json("start")["pid"]
    shutil.rmtree(user.tabane)
    wait_until(lambda: ended(pid), "the hub without a home ends", 60)
    user.gone()
    assert not user.tabane.exists()


def test_a_hub_whose_socket_lies_elsewhere_gives_way_when_its_home_was_deleted(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    user = User(folder)
    try:
        old = user.json("start")["pid"]
        socket = Path(user.json("status")["socket"])
        assert user.tabane not in socket.parents
        shutil.rmtree(user.tabane)
        started = user.json("start")
        assert (started["started"], started["pid"] != old) == (True, True)
        wait_until(lambda: ended(old), "the hub without a home ends", 60)
        assert user.json("status")["pid"] == started["pid"]
        assert user.json("stop")["was_running"] is True
        assert not socket.exists()
    finally:
        user.close()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_hub_whose_lock_file_is_gone_gives_way_to_the_next(user: User, how: str) -> None:
    user.json("start")
    (user.folder / "a.txt").write_text("A lighthouse on a cliff.")
    user.json("docs", "put", str(user.folder / "a.txt"))
    old, lock_file = user.holder.pid, user.tabane / "hub.lock"
    if how == "deleted":
        lock_file.unlink()
    else:
        copy = user.tabane / "copy"
        copy.write_bytes(lock_file.read_bytes())
        copy.replace(lock_file)
    started = user.json("start")
    assert started["pid"] != old
    wait_until(lambda: ended(old), "the hub without a lock ends", 60)
    assert user.json("docs", "search", "lighthouse")["results"]
    assert user.json("status")["pid"] == started["pid"]


def test_a_hub_whose_socket_was_deleted_listens_again(user: User) -> None:
    pid = user.json("start")["pid"]
    (user.tabane / "hub.sock").unlink()
    wait_until((user.tabane / "hub.sock").is_socket, "the hub listens again", 60)
    assert user.json("status")["pid"] == pid


def test_a_file_in_the_place_of_the_socket_is_not_deleted(user: User) -> None:
    user.tabane.mkdir(mode=0o700)
    (user.tabane / "hub.sock").write_text("mine")
    done = user.run("start")
    assert done.status == 1
    assert str(user.tabane / "hub.sock") in done.err
    assert (user.tabane / "hub.sock").read_text() == "mine"


NEWER = """
import sys, tabane
tabane.__version__ = "99.0"
sys.argv = ["tabane", "mcp"]
from tabane.__main__ import main
main()
"""


def test_a_newer_bridge_has_the_older_hub_drained_and_replaced(user: User) -> None:
    user.json("start", "--lang=ja")
    old = user.holder.pid
    witness = user.assistant()
    witness.send(request(1, name="small__wait", arguments={"n": 1}))
    wait_until((user.folder / "waiting").exists, "a call is in flight")
    process = subprocess.Popen(
        [sys.executable, "-c", NEWER],
        env=user.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request(0, "initialize", **INITIALIZE) + b"\n")
        wait_until(lambda: not (user.tabane / "hub.sock").exists(), "the old hub drains")
        (user.folder / "go").touch()
        assert said(witness.answer(1)) == {"n": 1}
        answer = json.loads(Lines(process.stdout.fileno()).next(30))
        assert answer["result"]["serverInfo"]["name"] == "tabane"
        assert user.holder.pid != old
        assert user.holder.flags == ("--lang=ja",)
        assert said(echo(witness, 2, n=2)) == {"n": 2}
    finally:
        process.kill()
        process.communicate()


def test_servers_write_files_with_the_umask_of_their_user(user: User) -> None:
    client = user.assistant()
    client.send(request(1, name="small__wait"))
    wait_until((user.folder / "waiting").exists, "the server wrote a file")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((user.folder / "waiting").stat().st_mode) == 0o666 & ~mask
    (user.folder / "go").touch()
    client.answer(1)


LIGHT = """
import sys
import tabane.__main__, tabane.hub.bridge.mcp_command
heavy = {"asyncio", "click", "msgspec", "logging", "subprocess", "dataclasses", "pathlib", "hashlib"}
loaded = heavy & set(sys.modules)
rooms = ("messages", "settings", "catalog", "guard", "net", "servers", "upstreams", "cli")
loaded |= {name for name in sys.modules if name.startswith(tuple(f"tabane.{room}" for room in rooms))}
assert not loaded, loaded
"""


def test_a_bridge_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
