"""`tabane bench disclosure --endpoint`: a model behind an endpoint, its transcript, and the replay of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.bench.temporary_hub import marked
from tests.cli.bench.conftest import SUM, WRITE, write_tasks
from tests.harness.chat_endpoint import ChatServer, Json, Reply, calls, chat_server, says
from tests.harness.home import Home, Outcome
from tests.harness.patience import LONG


def path_in(request: Json) -> str:
    """The path that the prompt of a conversation names."""
    prompt = next(each["content"] for each in request["messages"] if each["role"] == "user")
    return str(next(word.strip(".,") for word in prompt.split() if word.startswith("/")))


def through(tool: str, **arguments: Any) -> Json:
    return calls("call_tool", {"name": tool, "arguments": arguments})


def write_it(request: Json) -> Json:
    return through("desk__write_note", path=path_in(request), content="tea at four")


WELL = (calls("search_tools", {"query": "write a note"}), write_it, says("Done: tea at four."))


def bench(home: Home, tasks: Path, *options: str, **variables: str) -> Outcome:
    command = ("bench", "disclosure", "--tasks", str(tasks), "--model", "words", "--json", *options)
    return home.run(*command, environment=variables)


def with_model(home: Home, tasks: Path, chat: ChatServer, *options: str, **variables: str) -> Outcome:
    model = ("--endpoint", chat.url, "--model-name", "actor", "--only", "write")
    return bench(home, tasks, *model, *options, **variables)


def outcome(done: Outcome) -> Any:
    (found,) = done.json["tasks"]["model_agent"]["tasks"]
    return found


@pytest.mark.heavy("a benchmark in small")
def test_a_model_gets_the_hubs_tools_and_instructions_and_success_is_judged_by_the_state(
    home: Home, tasks: Path
) -> None:
    with chat_server(*WELL) as chat:
        done = with_model(home, tasks, chat).succeeded
    first = chat.requests[0]
    assert (first["model"], first["max_tokens"] > 0) == ("actor", True)
    names = [each["function"]["name"] for each in first["tools"]]
    assert {"search_tools", "describe_tools", "call_tool"} <= set(names)
    assert all(each["function"]["parameters"]["type"] == "object" for each in first["tools"])
    assert "search_tools" in first["messages"][0]["content"]
    # What the hub answered is what the model is sent next.
    assert "desk__write_note" in chat.requests[1]["messages"][-1]["content"]
    agent = done.json["tasks"]["model_agent"]
    assert agent["sums"]["all"]["task_success"] == 1
    assert outcome(done)["success"] is True
    assert (outcome(done)["turns"], outcome(done)["calls"], outcome(done)["tokens"]) == (3, 2, 300)
    assert "scripted_agent" not in done.json["tasks"]


def test_a_model_that_only_says_that_it_is_done_has_no_success(home: Home, tasks: Path) -> None:
    with chat_server(says("I wrote tea at four.")) as chat:
        found = outcome(with_model(home, tasks, chat).succeeded)
    assert found["success"] is False
    assert "notes/a.txt" in found["failed"][0]


def test_the_key_is_sent_as_a_token_and_is_in_no_transcript(home: Home, tasks: Path) -> None:
    file = home.folder / "run.jsonl"
    with chat_server(*WELL) as chat:
        options = ("--key-variable", "MY_KEY", "--record", str(file))
        done = with_model(home, tasks, chat, *options, MY_KEY="sk-secret").succeeded
    assert chat.headers[0]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in file.read_text() + done.out + done.err


def recorded(home: Home, tasks: Path) -> Path:
    file = home.folder / "run.jsonl"
    with chat_server(*WELL) as chat:
        assert with_model(home, tasks, chat, "--record", str(file)).succeeded
    return file


@pytest.mark.heavy("a benchmark in small")
def test_a_transcript_is_replayed_without_a_model_and_judged_again(home: Home, tasks: Path) -> None:
    file = recorded(home, tasks)
    assert str(home.folder / "tmp") not in file.read_text()
    done = bench(home, tasks, "--replay", str(file)).succeeded
    found = done.json["tasks"]
    assert found["replay_differences"] == []
    assert found["model_agent"]["model"] == "actor"
    assert outcome(done)["success"] is True
    assert found["skipped"] == {SUM["id"]: "not in the transcript"}


@pytest.mark.heavy("a benchmark in small")
def test_a_replay_says_where_the_hub_answers_something_else(home: Home, tasks: Path) -> None:
    file = recorded(home, tasks)
    file.write_text(file.read_text().replace("desk__write_note(", "desk__old_name("))
    done = bench(home, tasks, "--replay", str(file))
    assert done.status == 1
    (found,) = done.json["tasks"]["replay_differences"]
    assert (found["task"], found["turn"], found["what"]) == ("write", 2, "search_tools")
    assert "desk__old_name" in found["before"]
    assert "desk__write_note" in found["now"]


@pytest.mark.parametrize("text", ["", "not json\n", '{"format": 99}\n', '{"format": 1}\n{"task": "a"}\n'])
def test_a_file_that_is_no_transcript_is_refused(home: Home, tasks: Path, text: str) -> None:
    file = home.folder / "bad.jsonl"
    file.write_text(text)
    done = bench(home, tasks, "--replay", str(file))
    assert done.status == 2
    assert "it is not a transcript" in done.json["error"]["message"]


@pytest.mark.heavy("a benchmark in small")
def test_a_transcript_that_ends_too_early_is_an_error(home: Home, tasks: Path) -> None:
    file = recorded(home, tasks)
    file.write_text("".join(f"{line}\n" for line in file.read_text().splitlines()[:-1]))
    done = bench(home, tasks, "--replay", str(file))
    assert done.status == 1
    assert "ends after 2 turns" in done.json["error"]["message"]


@pytest.mark.heavy("a benchmark in small")
def test_an_endpoint_that_is_busy_is_asked_again_after_the_time_it_names(home: Home, tasks: Path) -> None:
    busy = Reply(429, b"{}", {"retry-after": "0"})
    with chat_server(busy, Reply(503, b""), *WELL) as chat:
        done = with_model(home, tasks, chat).succeeded
    assert outcome(done)["success"] is True
    assert chat.requests[0] == chat.requests[1] == chat.requests[2]


@pytest.mark.heavy("a benchmark in small")
def test_an_endpoint_that_wants_the_newer_name_of_the_limit_gets_it(home: Home, tasks: Path) -> None:
    refusal = Reply(400, b'{"error": {"message": "Use \'max_completion_tokens\' instead."}}')
    with chat_server(refusal, *WELL) as chat:
        assert with_model(home, tasks, chat).succeeded
    assert "max_tokens" not in chat.requests[1]
    assert chat.requests[1]["max_completion_tokens"] == chat.requests[0]["max_tokens"]


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (Reply(401, b'{"error": "no such key"}'), "HTTP 401"),
        (Reply(200, b"<html>"), "not valid"),
        (Reply(200, b'{"choices": []}'), "not valid"),
        (Reply(200, b'{"choices": [{"message": "hello"}]}'), "not valid"),
    ],
)
def test_an_endpoint_that_refuses_or_answers_nonsense_ends_the_run_with_the_reason(
    home: Home, tasks: Path, reply: Reply, named: str
) -> None:
    with chat_server(reply) as chat:
        done = with_model(home, tasks, chat, "--key-variable", "MY_KEY", MY_KEY="sk-secret")
    assert done.status == 1
    assert named in done.json["error"]["message"]
    assert "sk-secret" not in done.out + done.err
    assert len(chat.requests) == 1
    assert list(home.folder.joinpath("tmp").iterdir()) == []


@pytest.mark.heavy("a benchmark in small")
def test_an_endpoint_that_fails_later_leaves_what_was_measured_before(home: Home, tasks: Path) -> None:
    with chat_server(*WELL, Reply(401, b"expired")) as chat:
        model = ("--endpoint", chat.url, "--model-name", "actor")
        done = bench(home, tasks, *model)
    assert done.status == 1
    found = done.json["tasks"]
    assert [each["task"] for each in found["model_agent"]["tasks"]] == ["write"]
    assert "HTTP 401" in found["ended_early"]
    assert "HTTP 401" in done.err


@pytest.mark.heavy("a benchmark in small")
def test_calls_that_are_malformed_are_answered_with_an_error_and_counted(home: Home, tasks: Path) -> None:
    nothing = {"role": "assistant", "content": None, "tool_calls": [{"function": None}, 7]}
    script = (calls("search_tools", "{not json"), calls("no_such_tool", {}), nothing, *WELL)
    with chat_server(*script) as chat:
        found = outcome(with_model(home, tasks, chat).succeeded)
    assert (found["success"], found["malformed"], found["calls"]) == (True, 3, 6)
    assert "not a JSON object" in chat.requests[1]["messages"][-1]["content"]
    assert "no_such_tool" in chat.requests[2]["messages"][-1]["content"]
    # Each call has its answer, as an endpoint demands.
    asked = chat.requests[3]["messages"][-3]["tool_calls"]
    assert [each["id"] for each in asked] == [
        each["tool_call_id"] for each in chat.requests[3]["messages"][-2:]
    ]


@pytest.mark.heavy("a benchmark in small")
def test_a_model_that_never_stops_is_ended_at_the_limit_of_turns_or_tokens(home: Home, tasks: Path) -> None:
    with chat_server(calls("search_tools", {"query": "write"})) as chat:
        found = outcome(with_model(home, tasks, chat, "--turns", "4").succeeded)
        assert (found["ended"], found["turns"], found["success"]) == ("turns", 4, False)
        assert len(chat.requests) == 4
        found = outcome(with_model(home, tasks, chat, "--token-limit", "1000").succeeded)
        assert (found["ended"], found["turns"], found["success"]) == ("tokens", 11, False)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--endpoint", "http://127.0.0.1:9/v1"), "--model-name"),
        (("--endpoint", "ftp://x", "--model-name", "m"), "http://"),
        (("--model-name", "m"), "need --endpoint"),
        (("--record", "x.jsonl"), "need --endpoint"),
        (("--endpoint", "http://127.0.0.1:9/v1", "--model-name", "m", "--key-variable", "NONE"), "NONE"),
    ],
)
def test_options_that_do_not_fit_together_are_an_error(
    home: Home, tasks: Path, options: tuple[str, ...], named: str
) -> None:
    done = bench(home, tasks, *options)
    assert done.status == 2
    assert named in done.json["error"]["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl+C", "SIGTERM"])
def test_an_interruption_leaves_no_process_and_no_folder(home: Home, number: signal.Signals) -> None:
    tasks = write_tasks(home.folder / "tasks", WRITE)
    asked, done = threading.Event(), threading.Event()

    def wait(request: Json) -> Json:
        asked.set()
        done.wait(LONG)
        return says("too late")

    with chat_server(wait) as chat:
        model = ("--endpoint", chat.url, "--model-name", "slow", "--tasks", str(tasks), "--model", "words")
        process = subprocess.Popen(
            [sys.executable, "-m", "tabane", "bench", "disclosure", *model],
            env=home.environment,
            stderr=subprocess.DEVNULL,
        )
        assert asked.wait(LONG)
        (folder,) = home.folder.joinpath("tmp").glob("tabane-bench-*")
        mark = f"{folder.name}-{process.pid}"
        assert len(marked(mark)) >= 3  # hub, keeper, server
        process.send_signal(number)
        assert process.wait(LONG) == 130
        done.set()
    assert marked(mark) == {}
    assert list(home.folder.joinpath("tmp").iterdir()) == []
