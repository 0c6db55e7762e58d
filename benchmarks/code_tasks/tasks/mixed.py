"""Tasks on several servers at once."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.tasks.databases import rows
from benchmarks.code_tasks.tasks.reports import each_file, look
from benchmarks.code_tasks.world import World
from benchmarks.code_tasks.world_hub import WorldHub


def _by_city(call: DirectCalls) -> Any:
    cities = {row["name"].split()[0]: row["city"] for row in rows(call, "SELECT name, city FROM customers")}
    sums: Counter[str] = Counter()
    for text in each_file(call, "/NOTES/invoices").values():
        customer, total = re.search(r"Customer: (\w+)", text)[1], re.search(r"Total: (\d+)", text)[1]  # type: ignore[index]
        sums[cities[customer]] += int(total)
    return dict(sums)


def _city_sums(world: World) -> Any:
    cities = {each.name.split()[0]: each.city for each in world.records.customers}
    sums: Counter[str] = Counter()
    for invoice in world.files.invoices:
        sums[cities[invoice.customer]] += invoice.total
    return dict(sums)


def _copied(call: DirectCalls) -> Any:
    texts = each_file(call, "/NOTES/会議")
    for name, text in texts.items():
        call("put_document", filepath=f"out/会議/{name}", text=text)
    return len(texts)


def _has_copies(hub: WorldHub) -> bool:
    texts = hub.world.files.texts
    return all(
        hub.document(f"out/{name}") == text for name, text in texts.items() if name.startswith("会議/")
    )


def _remembered(call: DirectCalls) -> Any:
    log = call("git__git_log", repo_path="/REPOSITORY", max_count=40)
    counts = Counter(re.findall(r"Author: (\w+)", log))
    entities = [
        {"name": f"{who}@git", "entityType": "author", "observations": [f"{count} commits"]}
        for who, count in counts.items()
    ]
    call("memory__create_entities", entities=entities)
    found = json.loads(call("memory__search_nodes", query="@git"))["entities"]
    return {each["name"]: each["observations"][0] for each in found}


def _authors(world: World) -> Any:
    counts = Counter(commit.author for commit in world.records.commits)
    return {f"{who}@git": f"{count} commits" for who, count in counts.items()}


CITIES = ("New York", "Chicago", "Los Angeles")
_WEATHER = {"New York": 33, "Chicago": 36, "Los Angeles": 73}
"""The answers of the server, copied from its source."""


def _temperatures(call: DirectCalls) -> Any:
    found = (json.loads(call("everything__get-structured-content", location=city)) for city in CITIES)
    return {city: each["temperature"] for city, each in zip(CITIES, found, strict=True)}


TASKS = (
    CodeTask(
        "billed-by-city", "How much did we bill in each city? The invoices in /NOTES/invoices name customers, and the SQLite table customers (name like “Aster Ltd”, city) says where they are.",
        ("filesystem", "sqlite"), ("read text files", "list files in a folder", "run a SELECT query"), _by_city,
        (look("/NOTES/invoices"), """import asyncio, re
from tools import filesystem, sqlite
rows = await sqlite.read_query(query="SELECT name, city FROM customers")
cities = {r["name"].split()[0]: r["city"] for r in rows}
listing = (await filesystem.list_directory(path="/NOTES/invoices"))["content"]
names = re.findall(r"\\[FILE\\] (.+)", listing)
read = await asyncio.gather(*[filesystem.read_text_file(path=f"/NOTES/invoices/{n}") for n in names])
sums = {}
for r in read:
    city = cities[re.search(r"Customer: (\\w+)", r["content"])[1]]
    sums[city] = sums.get(city, 0) + int(re.search(r"Total: (\\d+)", r["content"])[1])
sums"""),
        _city_sums,
    ),
    CodeTask(
        "minutes-as-documents", "/NOTES/会議 の議事録をすべて、文書 out/会議/ に同じ名前で保存してください。何件ありましたか。",
        ("filesystem",), ("フォルダーのファイル一覧", "ファイルを読む", "文書を保存する"), _copied,
        ("""import re
from tools import filesystem, put_document
listing = (await filesystem.list_directory(path="/NOTES/会議"))["content"]
names = re.findall(r"\\[FILE\\] (.+)", listing)
for n in names:
    text = (await filesystem.read_text_file(path=f"/NOTES/会議/{n}"))["content"]
    await put_document(filepath=f"out/会議/{n}", text=text)
len(names)""",),
        lambda world: len(world.files.minutes),
        _has_copies,
    ),
    CodeTask(
        "authors-in-memory", "Store each author of the last 40 commits in /REPOSITORY in the memory as NAME@git with the note “N commits”. Then show what the memory has about @git.",
        ("git", "memory"), ("log of commits", "create entities", "search the knowledge graph"), _remembered,
        ("""import re
from collections import Counter
from tools import git, memory
log = await git.git_log(repo_path="/REPOSITORY", max_count=40)
counts = Counter(re.findall(r"Author: (\\w+)", log))
await memory.create_entities(entities=[
    {"name": f"{who}@git", "entityType": "author", "observations": [f"{n} commits"]} for who, n in counts.items()])
found = await memory.search_nodes(query="@git")
{e["name"]: e["observations"][0] for e in found["entities"]}""",),
        _authors,
        lambda hub: '40 commits' not in hub.world.memory.read_text() and "@git" in hub.world.memory.read_text(),
    ),
    CodeTask(
        "temperatures", f"What are the temperatures in {', '.join(CITIES)}?",
        ("everything",), ("weather of a location",), _temperatures,
        (f"""from tools import everything
cities = {CITIES!r}
{{c: (await everything.get_structured_content(location=c))["temperature"] for c in cities}}""",),
        lambda world: _WEATHER,
    ),
)  # fmt: skip
