"""Tasks on the history of a git repository."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world import World
from benchmarks.code_tasks.world_records import Commit

GIT = ("git",)
LOG, SHOW = "log of commits", "show what a commit changed"


def _hashes(call: DirectCalls, count: int) -> list[str]:
    return re.findall(r"Commit: (\w+)", call("git__git_log", repo_path="/REPOSITORY", max_count=count))


def _shown(call: DirectCalls, count: int) -> list[str]:
    return [
        call("git__git_show", repo_path="/REPOSITORY", revision=each[:10]) for each in _hashes(call, count)
    ]


def _last(world: World, count: int) -> list[Commit]:
    return world.records.commits[::-1][:count]


def _shows(count: int, rest: str) -> str:
    return f"""import asyncio, re
from tools import git
repo = "/REPOSITORY"
log = await git.git_log(repo_path=repo, max_count={count})
hashes = re.findall(r"Commit: (\\w+)", log)
shown = await asyncio.gather(*[git.git_show(repo_path=repo, revision=h) for h in hashes])
{rest.strip()}"""


_LOOK = """from tools import git
repo = "/REPOSITORY"
print(await git.git_log(repo_path=repo, max_count=2))
(await git.git_show(repo_path=repo, revision="HEAD"))[:500]"""


def _touching(call: DirectCalls) -> Any:
    texts = [text for text in _shown(call, 20) if "+++ b/docs/guide.md" in text]
    return [re.search(r"^    (.+)$", text, re.M)[1] for text in texts]  # type: ignore[index]


def _by_author(call: DirectCalls) -> Any:
    sums: dict[str, set[str]] = {}
    for text in _shown(call, 15):
        author = re.search(r"Author: (\w+)", text)[1]  # type: ignore[index]
        sums.setdefault(author, set()).update(re.findall(r"^\+\+\+ b/(.+)$", text, re.M))
    return {author: sorted(paths) for author, paths in sums.items()}


def _authors_files(world: World) -> Any:
    sums: dict[str, set[str]] = {}
    for commit in _last(world, 15):
        sums.setdefault(commit.author, set()).add(commit.path)
    return {author: sorted(paths) for author, paths in sums.items()}


def _most_changed(call: DirectCalls) -> Any:
    paths = Counter(path for text in _shown(call, 30) for path in re.findall(r"^\+\+\+ b/(.+)$", text, re.M))
    return paths.most_common(1)[0][0]


def _since(call: DirectCalls) -> Any:
    found = {}
    for back in (5, 10, 20):
        diff = call("git__git_diff", repo_path="/REPOSITORY", target=f"HEAD~{back}")
        found[str(back)] = len(re.findall(r"^diff --git", diff, re.M))
    return found


def _since_counts(world: World) -> Any:
    return {str(back): len({commit.path for commit in _last(world, back)}) for back in (5, 10, 20)}


def _state(call: DirectCalls) -> Any:
    texts = (
        call("git__git_status", repo_path="/REPOSITORY"),
        call("git__git_branch", repo_path="/REPOSITORY", branch_type="local"),
        call("git__git_log", repo_path="/REPOSITORY", max_count=1),
    )
    return _read_state("\n".join(texts))


def _read_state(text: str) -> Any:
    branch, message = re.search(r"\* (\w+)", text), re.search(r"Message: (.+)", text)
    assert branch
    assert message
    return ["nothing to commit" in text, branch[1], message[1]]


TASKS = (
    CodeTask(
        "commits-of-guide", "Which of the last 20 commits in /REPOSITORY touch docs/guide.md? Give their messages.",
        GIT, (LOG, SHOW), _touching,
        (_LOOK, _shows(20, """
[re.search(r"(?m)^    (.+)$", s)[1] for s in shown if "+++ b/docs/guide.md" in s]"""),),
        lambda world: [each.message for each in _last(world, 20) if each.path == "docs/guide.md"],
    ),
    CodeTask(
        "files-by-author", "/REPOSITORY の直近15件のコミットで、作者ごとに変更したファイルを一覧にしてください。",
        GIT, ("コミットの履歴", "コミットの変更内容"), _by_author,
        (_LOOK, _shows(15, """
files = {}
for s in shown:
    author = re.search(r"Author: (\\w+)", s)[1]
    files.setdefault(author, set()).update(re.findall(r"(?m)^\\+\\+\\+ b/(.+)$", s))
{a: sorted(f) for a, f in files.items()}"""),),
        _authors_files,
    ),
    CodeTask(
        "most-changed-file", "Which file was changed most often in the last 30 commits of /REPOSITORY?",
        GIT, (LOG, SHOW), _most_changed,
        (_LOOK, _shows(30, """
from collections import Counter
paths = Counter(p for s in shown for p in re.findall(r"(?m)^\\+\\+\\+ b/(.+)$", s))
paths.most_common(1)[0][0]"""),),
        lambda world: Counter(each.path for each in _last(world, 30)).most_common(1)[0][0],
    ),
    CodeTask(
        "files-since", "How many files of /REPOSITORY differ from 5, 10 and 20 commits ago?",
        GIT, ("compare with an earlier commit",), _since,
        ("""import re
from tools import git
counts = {}
for back in (5, 10, 20):
    diff = await git.git_diff(repo_path="/REPOSITORY", target=f"HEAD~{back}")
    counts[str(back)] = len(re.findall(r"(?m)^diff --git", diff))
counts""",),
        _since_counts,
    ),
    CodeTask(
        "state-of-repository", "/REPOSITORY に未コミットの変更はありますか。現在のブランチと最新のコミットのメッセージも教えてください。",
        GIT, ("リポジトリの状態", "ブランチの一覧", "コミットの履歴"), _state,
        ("""from tools import git
repo = "/REPOSITORY"
print(await git.git_status(repo_path=repo))
print(await git.git_branch(repo_path=repo, branch_type="local"))
print(await git.git_log(repo_path=repo, max_count=1))""",),
        lambda world: [True, "main", world.records.commits[-1].message],
        answer=_read_state,
    ),
)  # fmt: skip
