"""`tabane bench disclosure` with tasks: the scripted agent, tokens by mode, and what cannot be run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tabane.cli.bench.task_file import BUILT_IN, read_tasks
from tests.cli.bench.conftest import SUM, WRITE, step, task, write_tasks
from tests.harness.home import Home

pytestmark = pytest.mark.heavy("a benchmark in small")

DOCUMENT = {"document": "", "contains": "plums"}


def run(home: Home, folder: Path, *options: str) -> Any:
    return home.json("bench", "disclosure", "--tasks", str(folder), "--model", "words", *options)


def test_the_scripted_agent_does_tasks_of_one_and_several_tools_through_the_hub(
    home: Home, tasks: Path
) -> None:
    found = run(home, tasks)["tasks"]
    assert (found["total"], found["run"], found["skipped"], found["tools"]) == (2, 2, {}, 4)
    agent = found["scripted_agent"]
    assert agent["measures"] == "right tool found, arguments valid"
    assert agent["sums"]["all"]["passed"] == 2
    assert agent["sums"]["en"]["tasks"] == agent["sums"]["ja"]["tasks"] == 1
    assert agent["sums"]["all"]["passed_with_several_tools"] == 1
    assert [each["chosen"] for each in agent["tasks"][1]["steps"]] == [
        "desk__add_numbers",
        "desk__write_note",
    ]
    # Without a model there is no task success, only what was measured.
    assert "task success" not in json.dumps(found)
    assert list(home.folder.joinpath("tmp").iterdir()) == []


def test_tokens_of_a_task_are_those_of_its_list_and_of_what_a_mode_lets_a_model_read(
    home: Home, tasks: Path
) -> None:
    found = run(home, tasks)["tasks"]
    costs = found["tokens_per_task"]
    assert list(costs) == ["search", "light", "full"]
    assert costs["search"]["list"] < costs["light"]["list"] < costs["full"]["list"]
    assert found["unsolved_with_expected_tools"] == {}
    for mode in costs.values():
        assert mode["task_with_several_tools"] > mode["task_with_one_tool"] > mode["list"]
    read = {mode: costs[mode]["task"] - costs[mode]["list"] - costs[mode]["instructions"] for mode in costs}
    assert read["search"] > read["light"] > read["full"]


def test_a_wrong_tool_is_no_pass_and_a_call_that_fails_is_none_either(home: Home) -> None:
    wrong = task("wrong", [step("add two numbers", "desk/read_note", a=1, b=2)], [{"answer": ["3"]}])
    fails = task(
        "fails", [step("read a note", "desk/read_note", path="{notes}/none.txt")], [{"answer": ["x"]}]
    )
    file = write_tasks(home.folder / "bad", wrong, fails)
    done = home.run("bench", "disclosure", "--tasks", str(file), "--model", "words", "--json")
    assert done.status == 1
    found = done.json["tasks"]
    first, second = found["scripted_agent"]["tasks"]
    assert (first["passed"], first["steps"][0]["chosen"]) == (False, "desk__add_numbers")
    assert (second["steps"][0]["right"], second["steps"][0]["valid"]) == (True, False)
    # That the tasks cannot be done at all is said, because the result would mean nothing.
    assert sorted(found["unsolved_with_expected_tools"]) == ["fails", "wrong"]


def test_tasks_of_a_server_that_is_not_installed_are_skipped_and_counted(home: Home) -> None:
    absent = task("absent", [step("fly", "plane/fly")], [{"answer": ["up"]}])
    plane = {"command": "no-such-mcp-server"}
    folder = write_tasks(home.folder / "tasks2", WRITE, absent, plane=plane)
    done = home.run("bench", "disclosure", "--tasks", str(folder), "--model", "words").succeeded
    assert "Skipped 1 of 2 tasks, because this is missing: no-such-mcp-server" in done.err
    alone = home.run("bench", "disclosure", "--tasks", str(folder), "--only", "absent", "--json")
    assert alone.status == 1
    assert alone.json["tasks"]["skipped"] == {"absent": "no-such-mcp-server"}


def test_each_task_begins_with_the_workplace_as_it_was(home: Home) -> None:
    text = {"path": "{notes}/old.txt", "content": "new"}
    over = task(
        "a", [step("write a note", "desk/write_note", **text)], [{"file": "notes/old.txt", "equals": "new"}]
    )
    read = task("b", [step("read a note", "desk/read_note", path="{notes}/old.txt")], [{"answer": ["old"]}])
    own = read | {"id": "c", "setup": {"notes": {"old.txt": "oldest"}}, "checks": [{"answer": ["oldest"]}]}
    found = run(home, write_tasks(home.folder / "tasks3", over, read, own))
    assert found["tasks"]["unsolved_with_expected_tools"] == {}


def test_a_document_of_a_task_before_does_not_count(home: Home) -> None:
    keep = {"text": "plums", "filepath": "a/plums"}
    put = task("put", [step("put a text as a document", "tabane/put_document", **keep)], [DOCUMENT])
    nothing = task("nothing", [step("add two numbers", "desk/add_numbers", a=1, b=2)], [DOCUMENT])
    folder = write_tasks(home.folder / "tasks4", put, nothing)
    done = home.run("bench", "disclosure", "--tasks", str(folder), "--model", "words", "--json")
    assert list(done.json["tasks"]["unsolved_with_expected_tools"]) == ["nothing"]


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({**WRITE, "lang": "fr"}, "Invalid enum value 'fr' - at `$.tasks[0].lang`"),
        ({**WRITE, "checks": [{"file": "a", "git": ["log"]}]}, "needs exactly one of: answer"),
        ({**WRITE, "checks": [{"file": "a"}]}, "does not say what the file must be"),
        ({**WRITE, "steps": [step("x", "nowhere/tool")]}, "nowhere/tool is not SERVER/TOOL of a server"),
    ],
)
def test_wrong_tasks_are_refused_with_their_place(home: Home, broken: dict[str, Any], named: str) -> None:
    folder = write_tasks(home.folder / "broken", broken)
    done = home.run("bench", "disclosure", "--tasks", str(folder))
    assert done.status == 2
    assert named in done.err


def test_a_task_id_that_nothing_begins_with_is_an_error(home: Home, tasks: Path) -> None:
    done = home.run("bench", "disclosure", "--tasks", str(tasks), "--only", "nothing")
    assert (done.status, "nothing" in done.err) == (2, True)


def test_the_tasks_that_come_with_tabane_are_sixty_in_two_languages_over_real_servers() -> None:
    found = read_tasks(BUILT_IN)
    assert Counter(each.lang for each in found.tasks) == {"en": 30, "ja": 30}
    assert sum(each.several for each in found.tasks) >= 20
    assert {server for each in found.tasks for server in each.servers} == set(found.servers)
    assert sum(map(len, found.distractors.values())) >= 100
    assert SUM["id"] not in {each.id for each in found.tasks}
