"""Tasks on a graph in memory."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from benchmarks.code_tasks.task import CodeTask, DirectCalls
from benchmarks.code_tasks.world import World
from benchmarks.code_tasks.world_hub import WorldHub
from benchmarks.code_tasks.world_records import CITIES

MEMORY = ("memory",)
SEARCH, GRAPH = "search the knowledge graph", "read the whole knowledge graph"
SKILLS = ("Rust", "Python", "SQL", "Design", "Writing")
PARTS = {"engine": "car", "wheel": "car", "piston": "engine", "valve": "engine"}


def _people_with(call: DirectCalls, words: str) -> list[str]:
    found = json.loads(call("memory__search_nodes", query=words))["entities"]
    return [each["name"] for each in found]


def _skills(call: DirectCalls) -> Any:
    return {skill: len(_people_with(call, f"knows {skill}")) for skill in SKILLS}


def _cities(call: DirectCalls) -> Any:
    return {city: sorted(_people_with(call, f"lives in {city}")) for city in CITIES}


def _city_people(world: World) -> Any:
    people = world.records.people
    return {city: sorted(name for name, (_, home, _) in people.items() if home == city) for city in CITIES}


def _built(call: DirectCalls) -> Any:
    names = ("car", *PARTS)
    entities = [{"name": name, "entityType": "part", "observations": []} for name in names]
    call("memory__create_entities", entities=entities)
    relations = [{"from": part, "to": whole, "relationType": "is part of"} for part, whole in PARTS.items()]
    call("memory__create_relations", relations=relations)
    found = json.loads(call("memory__open_nodes", names=["engine"]))["relations"]
    return sorted(each["from"] for each in found if each["to"] == "engine")


def _has_parts(hub: WorldHub) -> bool:
    lines = [json.loads(line) for line in hub.world.memory.read_text().splitlines()]
    found = {(each["from"], each["to"]) for each in lines if each["type"] == "relation"}
    return found >= set(PARTS.items())


def _moved(call: DirectCalls) -> Any:
    relations = json.loads(call("memory__open_nodes", names=["Harbor"]))["relations"]
    members = sorted(each["from"] for each in relations if each["to"] == "Harbor")
    added = [{"entityName": name, "contents": ["moves to room 12"]} for name in members]
    call("memory__add_observations", observations=added)
    return sorted(_people_with(call, "moves to room 12"))


def _members(world: World) -> list[str]:
    return sorted(name for name, (team, _, _) in world.records.people.items() if team == "Harbor")


def _has_moved(hub: WorldHub) -> bool:
    lines = [json.loads(line) for line in hub.world.memory.read_text().splitlines()]
    found = [each["name"] for each in lines if "moves to room 12" in each.get("observations", ())]
    return sorted(found) == _members(hub.world)


TASKS = (
    CodeTask(
        "people-by-skill", "メモリーのグラフで、Rust、Python、SQL、Design、Writing を知っている人はそれぞれ何人ですか。",
        MEMORY, ("ナレッジグラフを検索する",), _skills,
        ("""from tools import memory
skills = ("Rust", "Python", "SQL", "Design", "Writing")
{s: len((await memory.search_nodes(query=f"knows {s}"))["entities"]) for s in skills}""",),
        lambda world: dict(Counter(skill for _, _, skills in world.records.people.values() for skill in skills)),
    ),
    CodeTask(
        "people-by-city", f"Who lives in each of these cities, according to the memory: {', '.join(CITIES)}?",
        MEMORY, (SEARCH,), _cities,
        (f"""from tools import memory
found = {{}}
for city in {CITIES!r}:
    nodes = await memory.search_nodes(query=f"lives in {{city}}")
    found[city] = sorted(e["name"] for e in nodes["entities"])
found""",),
        _city_people,
    ),
    CodeTask(
        "parts-of-a-car", "Store in the memory: engine and wheel are parts of a car, piston and valve of an engine. Then ask it which parts an engine has.",
        MEMORY, ("create entities and relations", "open nodes"), _built,
        ("""from tools import memory
parts = {"engine": "car", "wheel": "car", "piston": "engine", "valve": "engine"}
await memory.create_entities(entities=[
    {"name": n, "entityType": "part", "observations": []} for n in ("car", *parts)])
await memory.create_relations(relations=[
    {"from": p, "to": whole, "relationType": "is part of"} for p, whole in parts.items()])
found = await memory.open_nodes(names=["engine"])
sorted(r["from"] for r in found["relations"] if r["to"] == "engine")""",),
        lambda world: ["piston", "valve"],
        _has_parts,
    ),
    CodeTask(
        "harbor-moves", "Add to everybody who works in the team Harbor that they move to room 12 (moves to room 12), and list who has that note then.",
        MEMORY, ("open nodes of the knowledge graph", "add observations"), _moved,
        ("""from tools import memory
relations = (await memory.open_nodes(names=["Harbor"]))["relations"]
names = [r["from"] for r in relations if r["to"] == "Harbor"]
await memory.add_observations(observations=[{"entityName": n, "contents": ["moves to room 12"]} for n in names])
sorted(e["name"] for e in (await memory.search_nodes(query="moves to room 12"))["entities"])""",),
        _members,
        _has_moved,
    ),
)  # fmt: skip
