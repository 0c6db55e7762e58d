"""Scripts over real servers return what the same calls return one by one, for fewer tokens."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from tabane.cli.bench.task_hub import Workplace, found_servers
from tabane.cli.bench.temporary_hub import Assistant, TemporaryFolder, TemporaryHub
from tests.conftest import absent

SERVERS: dict[str, dict[str, Any]] = {
    "git": {"command": "mcp-server-git", "args": ["--repository", "{repository}"], "needs": ["git"]},
    "time": {"command": "mcp-server-time", "args": ["--local-timezone", "Asia/Tokyo"]},
}
COMMITS = [
    {"message": f"Change {number}", "files": {f"docs/{number % 3}.md": f"Line {number}\n" * 200}}
    for number in range(9)
]
ZONES = ("America/Lima", "Asia/Kolkata", "Africa/Nairobi")
SCRIPT = """import asyncio, re
from tools import git, time_
log = await git.git_log(repo_path={repository!r}, max_count=9)
hashes = re.findall(r"Commit: (\\w+)", log)
commits = await asyncio.gather(*[git.git_show(repo_path={repository!r}, revision=each) for each in hashes])
times = [await time_.convert_time(source_timezone="Asia/Tokyo", time="09:00", target_timezone=zone)
         for zone in {zones!r}]
[sorted(re.findall(r"\\+\\+\\+ b/(.+)", "\\n".join(commits))), [each["target"]["timezone"] for each in times]]
"""


@pytest.mark.timeout(400)
def test_a_script_of_thirteen_calls_returns_their_answer_and_not_their_results() -> None:
    with TemporaryFolder() as folder:
        workplace = Workplace(folder, {})
        servers, missing = found_servers(SERVERS, workplace.places, os.environ)
        if missing:
            absent(", ".join(missing.values()))
        workplace.prepare({"commits": COMMITS})
        repository = workplace.places["repository"]
        with TemporaryHub(folder, servers) as hub:
            assistants = {mode: hub.assistant(f"--mode={mode}") for mode in ("search", "code")}
            hub.aliases()
            log = called(assistants["search"], "git__git_log", repo_path=repository, max_count=9)
            hashes = re.findall(r"Commit: (\w+)", log)
            commits = [
                called(assistants["search"], "git__git_show", repo_path=repository, revision=each)
                for each in hashes
            ]
            script = SCRIPT.format(repository=repository, zones=ZONES)
            answer = assistants["code"].call("run_script", {"code": script})
    paths = sorted(path for text in commits for path in re.findall(r"\+\+\+ b/(.+)", text))
    assert len(paths) == len(COMMITS)
    assert not answer.failed, answer.text
    assert all(each in answer.text for each in (*paths, *ZONES))
    assert len(script) + len(answer.text) < len(log + "".join(commits)) / 2


def called(assistant: Assistant, name: str, **arguments: Any) -> str:
    answer = assistant.call("call_tool", {"name": name, "arguments": arguments})
    assert not answer.failed, answer.text
    return answer.text
