"""Tasks on a folder of files: sizes, times, settings, logs, sources, versions of a text."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.tasks.reports import FILES, LIST, READ, all_files, each_file, look, names
from benchmarks.code_tasks.world import NEWEST, World


def _source_bytes(call: DirectCalls) -> Any:
    found = {}
    for name in names(call, "/NOTES/source"):
        info = call("filesystem__get_file_info", path=f"/NOTES/source/{name}")
        found[name] = int(re.search(r"size: (\d+)", info)[1])  # type: ignore[index]
    return sorted(found, key=lambda name: -found[name])[:3]


def _largest_sources(world: World) -> Any:
    sizes = {
        name.split("/")[1]: len(text)
        for name, text in world.files.texts.items()
        if re.fullmatch(r"source/\w+\.py", name)
    }
    return sorted(sizes, key=lambda name: -sizes[name])[:3]


_MONTHS = dict(
    zip(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        range(1, 13),
        strict=True,
    )
)


def _newest(call: DirectCalls) -> Any:
    times = {}
    for name in names(call, "/NOTES/reports"):
        info = call("filesystem__get_file_info", path=f"/NOTES/reports/{name}")
        _, month, day, year = re.search(r"modified: (\w+) (\w+) (\d+) (\d+)", info).groups()  # type: ignore[union-attr]
        times[name] = (int(year), _MONTHS[month], int(day))
    return max(times, key=lambda name: times[name])


def _contracts(call: DirectCalls) -> Any:
    call("filesystem__list_directory", path="/NOTES/contracts")
    old, new = (
        call("filesystem__read_text_file", path=f"/NOTES/contracts/{year}.md").split("\n\n")
        for year in (2025, 2026)
    )
    return [
        int(after.split(".")[0])
        for before, after in zip(old, new, strict=True)
        if before.strip() != after.strip()
    ]


def _debugging(call: DirectCalls) -> Any:
    found = [json.loads(text) for text in each_file(call, "/NOTES/config").values()]
    return {each["service"]: each["port"] for each in found if each["debug"]}


def _days(call: DirectCalls) -> list[str]:
    return [
        call("filesystem__read_text_file", path=f"/NOTES/logs/{name}")
        for name in names(call, "/NOTES/logs")
        if name.startswith("app-")
    ]


def _errors(call: DirectCalls) -> Any:
    return dict(Counter(service for text in _days(call) for service in re.findall(r" ERROR (\w+) ", text)))


def _slowest(call: DirectCalls) -> Any:
    lines = [line.split() for text in _days(call) for line in text.splitlines()]
    slow = max(lines, key=lambda parts: int(parts[4][5:-2]))
    return [slow[0], slow[2]]


def _slowest_line(world: World) -> Any:
    lines = [line for day in world.files.logs.values() for line in day]
    slow = max(lines, key=lambda line: line.ms)
    return [slow.time, slow.service]


_LOGS = """import asyncio, re
from tools import filesystem
listing = (await filesystem.list_directory(path="/NOTES/logs"))["content"]
names = re.findall(r"app-\\S+", listing)
read = await asyncio.gather(*[filesystem.read_text_file(path=f"/NOTES/logs/{n}") for n in names])
text = "".join(r["content"] for r in read)
"""


def _todos(call: DirectCalls) -> Any:
    tree = json.loads(call("filesystem__directory_tree", path="/NOTES/source"))
    paths = [each["name"] for each in tree if each["type"] == "file"]
    paths += [f"{each['name']}/{sub['name']}" for each in tree for sub in each.get("children", ())]
    texts = (call("filesystem__read_text_file", path=f"/NOTES/source/{path}") for path in paths)
    return dict(Counter(who for text in texts for who in re.findall(r"TODO\((\w+)\)", text)))


def _todo_counts(world: World) -> Any:
    found = [todo for todos in world.files.todos.values() for todo in todos]
    return dict(Counter(todo[5:].split(")")[0] for todo in found))


def _tests(call: DirectCalls) -> Any:
    paths = call("filesystem__search_files", path="/NOTES/source", pattern="**/*_test.py").splitlines()
    texts = {path.rpartition("/")[2]: call("filesystem__read_text_file", path=path) for path in paths}
    return {name: text.count("def ") for name, text in texts.items()}


def _functions(world: World) -> Any:
    texts = world.files.texts
    return {name.rpartition("/")[2]: texts[name].count("def ") for name in texts if name.endswith("_test.py")}


def _statuses(call: DirectCalls) -> Any:
    call("filesystem__list_directory", path="/NOTES/logs")
    text = call("filesystem__read_text_file", path="/NOTES/logs/access.log")
    return dict(Counter(line.split()[3] for line in text.splitlines()))


TASKS = (
    CodeTask(
        "largest-sources", "/NOTES/source 直下で大きいファイルを3つ、大きい順に教えてください。正確なバイト数で比べてください。",
        FILES, ("フォルダーのファイル一覧", "ファイルのサイズ"), _source_bytes,
        ("""from tools import filesystem
print((await filesystem.list_directory(path="/NOTES/source"))["content"])
(await filesystem.get_file_info(path="/NOTES/source"))["content"]""",
         """import asyncio, re
from tools import filesystem
listing = (await filesystem.list_directory(path="/NOTES/source"))["content"]
names = re.findall(r"\\[FILE\\] (.+)", listing)
infos = await asyncio.gather(*[filesystem.get_file_info(path=f"/NOTES/source/{n}") for n in names])
sizes = {n: int(re.search(r"size: (\\d+)", i["content"])[1]) for n, i in zip(names, infos)}
sorted(sizes, key=lambda n: -sizes[n])[:3]"""),
        _largest_sources,
    ),
    CodeTask(
        "newest-report", "Which file in /NOTES/reports was changed last?",
        FILES, (LIST, "when was a file changed"), _newest,
        # A person looks first at how times are written.
        ("""from tools import filesystem
print((await filesystem.list_directory(path="/NOTES/reports"))["content"])
(await filesystem.get_file_info(path="/NOTES/reports/2026-01.md"))["content"]""",
         """import asyncio, re
from tools import filesystem
names = [f"2026-{m:02}.md" for m in range(1, 13)]
infos = await asyncio.gather(*[filesystem.get_file_info(path=f"/NOTES/reports/{n}") for n in names])
months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
times = {}
for n, i in zip(names, infos):
    month, day, year = re.search(r"modified: \\w+ (\\w+) (\\d+) (\\d+)", i["content"]).groups()
    times[n] = (int(year), months.index(month), int(day))
max(times, key=lambda n: times[n])"""),
        lambda world: NEWEST.rpartition("/")[2],
    ),
    CodeTask(
        "changed-clauses", "Which clauses differ between the contracts of 2025 and 2026 in /NOTES/contracts?",
        FILES, (LIST, READ), _contracts,
        ("""from tools import filesystem
print((await filesystem.list_directory(path="/NOTES/contracts"))["content"])
(await filesystem.read_text_file(path="/NOTES/contracts/2025.md", head=5))["content"]""",
         """from tools import filesystem
old, new = [(await filesystem.read_text_file(path=f"/NOTES/contracts/{y}.md"))["content"] for y in (2025, 2026)]
pairs = zip(old.strip().split("\\n\\n"), new.strip().split("\\n\\n"))
[int(b.split(".")[0]) for a, b in pairs if a != b]"""),
        lambda world: world.files.contract_changes,
    ),
    CodeTask(
        "debugging-services", "Which services in /NOTES/config run with debug, and on which port?",
        FILES, (LIST, READ), _debugging,
        (look("/NOTES/config"), all_files("/NOTES/config", """
import json
found = [json.loads(t) for t in texts]
{s["service"]: s["port"] for s in found if s["debug"]}"""),),
        lambda world: {name: each["port"] for name, each in world.files.settings.items() if each["debug"]},
    ),
    CodeTask(
        "errors-by-service", "Count the errors in the logs /NOTES/logs/app-*.log by service.",
        FILES, (LIST, READ), _errors,
        (look("/NOTES/logs", 5), _LOGS + """from collections import Counter
dict(Counter(re.findall(r" ERROR (\\w+) ", text)))""",),
        lambda world: dict(Counter(
            line.service for day in world.files.logs.values() for line in day if line.level == "ERROR"
        )),
    ),
    CodeTask(
        "slowest-request", "/NOTES/logs の app-*.log で一番遅いリクエストの時刻とサービスは何ですか。",
        FILES, ("フォルダーのファイル一覧", "ファイルを読む"), _slowest,
        (look("/NOTES/logs", 5), _LOGS + """lines = [line.split() for line in text.splitlines()]
slow = max(lines, key=lambda parts: int(parts[4][5:-2]))
[slow[0], slow[2]]""",),
        _slowest_line,
    ),
    CodeTask(
        "todos-by-person", "Count the TODO comments in all Python files under /NOTES/source by person.",
        FILES, ("tree of a folder", READ), _todos,
        ("""import asyncio, json, re
from collections import Counter
from tools import filesystem
tree = json.loads((await filesystem.directory_tree(path="/NOTES/source"))["content"])
paths = [e["name"] for e in tree if e["type"] == "file"]
paths += [f"{e['name']}/{s['name']}" for e in tree if e["type"] == "directory" for s in e["children"]]
read = await asyncio.gather(*[filesystem.read_text_file(path=f"/NOTES/source/{p}") for p in paths])
dict(Counter(who for r in read for who in re.findall(r"TODO\\((\\w+)\\)", r["content"])))""",),
        _todo_counts,
    ),
    CodeTask(
        "functions-of-tests", "How many functions does each *_test.py under /NOTES/source have?",
        FILES, ("find files by name", READ), _tests,
        ("""from tools import filesystem
found = (await filesystem.search_files(path="/NOTES/source", pattern="**/*_test.py"))["content"]
counts = {}
for path in found.splitlines():
    text = (await filesystem.read_text_file(path=path))["content"]
    counts[path.split("/")[-1]] = text.count("def ")
counts""",),
        _functions,
    ),
    CodeTask(
        "statuses", "How often does each status occur in the access log in /NOTES/logs?",
        FILES, (LIST, READ), _statuses,
        ("""from tools import filesystem
print((await filesystem.list_directory(path="/NOTES/logs"))["content"])
(await filesystem.read_text_file(path="/NOTES/logs/access.log", head=3))["content"]""",
         """from collections import Counter
from tools import filesystem
log = (await filesystem.read_text_file(path="/NOTES/logs/access.log"))["content"]
dict(Counter(line.split()[3] for line in log.splitlines()))"""),
        lambda world: {str(status): count for status, count in world.files.access_log.items()},
    ),
)  # fmt: skip
