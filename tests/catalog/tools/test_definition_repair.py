"""Odd definitions: what is repaired, what is removed, and what is left out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.tools.definition_repair import (
    DefinitionKind,
    RepairReport,
    legacy_definition,
    repair_definition,
)
from tests.harness.servers.odd import GOOD, catalog

CASES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["case"]
KINDS: dict[DefinitionKind, str] = {
    "tool": "tools",
    "prompt": "prompts",
    "resource": "resources",
    "template": "resourceTemplates",
}
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_each_oddity_is_repaired_as_its_row_says(case: dict[str, Any]) -> None:
    kind: DefinitionKind = case.get("kind", "tool")
    given = {**json.loads(case.get("base", '{"name":"t","inputSchema":{"type":"object"}}'))}
    given |= json.loads(case["given"])
    found = repair_definition(kind, json.dumps(given).encode())
    assert list(found.repaired) == case.get("repaired", [])
    if case.get("left_out"):
        assert found.definition is None
        return
    assert found.definition is not None
    wanted = {**given, **json.loads(case["becomes"])}
    wanted = {name: value for name, value in wanted.items() if value != "(removed)"}
    assert json.loads(found.definition) == wanted


@pytest.mark.parametrize("kind", get_args(DefinitionKind))
def test_a_good_definition_stays_byte_for_byte(kind: DefinitionKind) -> None:
    definition = json.dumps(GOOD[KINDS[kind]], indent=1).encode()
    assert json.loads(repair_definition(kind, definition).definition or b"") == json.loads(definition)
    plain = {
        name: value
        for name, value in GOOD[KINDS[kind]].items()
        if name not in ("outputSchema", "annotations")
    }
    definition = json.dumps(plain, indent=1).encode()
    assert repair_definition(kind, definition) == (definition, ())


@pytest.mark.parametrize("kind", get_args(DefinitionKind))
def test_what_was_repaired_needs_no_repair(kind: DefinitionKind) -> None:
    for odd in catalog(KINDS[kind], 400):
        try:
            text = json.dumps(odd, allow_nan=False).encode()
        except ValueError:
            continue  # NaN never comes so far
        if not isinstance(odd, dict):
            continue
        found = repair_definition(kind, text)
        if found.definition is not None:
            assert repair_definition(kind, found.definition) == (found.definition, ()), odd


@given(st.sampled_from(get_args(DefinitionKind)), st.data())
def test_no_definition_is_too_odd(kind: DefinitionKind, data: st.DataObject) -> None:
    names = sorted(GOOD[KINDS[kind]])
    odd = {**GOOD[KINDS[kind]], **data.draw(st.dictionaries(st.sampled_from(names), ANY, max_size=3))}
    found = repair_definition(kind, json.dumps(odd).encode())
    if found.definition is not None:
        assert repair_definition(kind, found.definition).repaired == ()


def test_a_schema_of_an_array_is_kept_from_older_clients_alone() -> None:
    given = b'{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}'
    assert repair_definition("tool", given).definition == given
    assert legacy_definition(given) == b'{"name":"t","inputSchema":{"type":"object"}}'


def test_a_report_names_the_first_few() -> None:
    report = RepairReport("tools/list")
    for number in range(7):
        report.note(f"t{number}", repair_definition("tool", b'{"name":"t"}'))
    report.note("bad", repair_definition("tool", b'{"name":"t","inputSchema":{"type":"string"}}'))
    assert [str(each) for each in report.messages()] == [
        "tools/list: repaired 7 definitions that MCP clients refuse: t0 (inputSchema), t1 (inputSchema), "
        "t2 (inputSchema), t3 (inputSchema), t4 (inputSchema), …",
        "tools/list: left out 1 definition that MCP clients refuse: bad (inputSchema)",
    ]
