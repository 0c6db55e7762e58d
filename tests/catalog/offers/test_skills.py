"""Entries of skills as clients get them: other addresses, and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.catalog.offers.resources import addressed
from tabane.catalog.offers.skills import SkillCatalog, folder_of, read_skill, read_skills, shown_uri

_names = st.text("abcdefgh-", min_size=1, max_size=8)
_paths = st.lists(_names, min_size=1, max_size=4).map("/".join)
_schemes = st.sampled_from(["skill://", "SKILL://", "github://owner/", "file:///"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def _entry(uri: str, files: Any, **more: Any) -> Raw:
    matter = {"name": "n", "description": "d", **more}
    entry = {"uri": uri, "frontmatter": matter, "resources": files, "x": [9007199254740993]}
    return Raw(json.dumps(entry).encode())


@given(st.text(min_size=1), _schemes, st.lists(_paths, min_size=1, unique=True), _values)
def test_only_uris_change_and_lead_back_to_their_server(
    server: str, scheme: str, paths: list[str], matter: Any
) -> None:
    uris = [f"{scheme}{path}/SKILL.md" for path in paths]
    files = [{"uri": uri, "digest": "sha256:0", "size": 1, "y": None} for uri in uris]
    skill = read_skill(server, _entry(uris[0], files, extra=matter))
    assert skill is not None
    shown = json.loads(skill.definition)
    assert addressed(shown["uri"]) == (server, uris[0])
    assert [addressed(file["uri"]) for file in shown["resources"]] == [(server, uri) for uri in uris]
    rest = [{key: value for key, value in file.items() if key != "uri"} for file in shown["resources"]]
    assert rest == [{"digest": "sha256:0", "size": 1, "y": None}] * len(uris)
    assert shown["frontmatter"] == {"name": "n", "description": "d", "extra": matter}
    assert shown["x"] == [9007199254740993]
    # A relative reference from SKILL.md leads to a file of the same skill.
    assert shown["uri"].endswith(f"{paths[0]}/SKILL.md")


@given(_values)
def test_anything_that_is_no_entry_is_left_out(value: Any) -> None:
    assert read_skill("s", Raw(json.dumps(value).encode())) is None
    assert read_skill("s", _entry("skill://n/SKILL.md", "static")) is None
    assert read_skill("s", _entry("skill://n/SKILL.md", [{"digest": "x"}])) is None


def test_a_repeated_skill_counts_once() -> None:
    entries = [_entry("skill://n/SKILL.md", "dynamic"), _entry("skill://n/SKILL.md", [])]
    (skill,) = read_skills("s", entries)
    assert skill.files is None


@given(st.lists(_paths, min_size=1, unique=True))
def test_every_listed_file_is_found_from_its_root(paths: list[str]) -> None:
    root = "skill://n"
    skill = read_skill("s", _entry(f"{root}/SKILL.md", [{"uri": f"{root}/{path}"} for path in paths]))
    assert skill is not None

    def walk(folder: str) -> set[str]:
        found = folder_of([skill], "s", folder)
        assert found is not None
        files: set[str] = set()
        for child in json.loads(found)["resources"]:
            own = addressed(child["uri"])
            assert own is not None
            files |= walk(own[1]) if child.get("mimeType") == "inode/directory" else {own[1]}
        return files

    # A name that is a file and a folder at once is one of them: no server can have both.
    proper = {path for path in paths if not any(other.startswith(path + "/") for other in paths)}
    assert {f"{root}/{path}" for path in proper} <= walk(root) <= {f"{root}/{path}" for path in paths}
    assert folder_of([skill], "s", "skill://other") is None


async def _read(catalog: SkillCatalog) -> list[str]:
    await catalog.read()
    return [skill.shown for skill in catalog.items()]


def test_the_catalog_changes_only_if_a_list_does() -> None:
    catalog = SkillCatalog()
    entry = _entry("skill://n/SKILL.md", "dynamic")
    assert catalog.put("b", [entry])
    assert not catalog.put("b", [Raw(bytes(entry))])
    assert catalog.put("a", [entry])
    version = catalog.version
    assert asyncio.run(_read(catalog)) == [shown_uri(name, "skill://n/SKILL.md") for name in "ab"]
    assert catalog.remove("b")
    assert not catalog.remove("b")
    assert catalog.version > version
    assert asyncio.run(_read(catalog)) == [shown_uri("a", "skill://n/SKILL.md")]
