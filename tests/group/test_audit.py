"""The audit log in a group of hubs: each hub keeps its own, and each finds the entries of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tabane.group.group_index import next_part
from tabane.group.shared_records import LARGEST_ENTRY
from tests.group.asking import ask, call_tool, refused
from tests.harness.hub_group import hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import child
from tests.web.visitor import text, visitor

SERVERS = {"c": child()}


def names(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["hub"], row["name"]) for row in found["results"]]


@pytest.mark.heavy("a real PostgreSQL")
async def test_each_hub_finds_the_entries_of_all(tmp_path: Path, postgres: PostgresServer) -> None:
    async def until_away(group: Any, postgres: PostgresServer) -> None:
        """Without its tables in the database, a hub answers for itself and says so."""
        first = group.hubs[0]
        postgres.execute("ALTER TABLE audit.hub_audit RENAME TO hub_audit_away")
        found = await ask(first, "query_audit_logs", tool="c__echo")
        assert names(found) == [(group.group(0).me.address, "c__echo")]
        assert found["problem"].startswith("Only this hub is included: ")
        assert await refused(first, "query_audit_logs", hub="http://other")
        await call_tool(first, "c__echo", word="meanwhile")
        postgres.execute("ALTER TABLE audit.hub_audit_away RENAME TO hub_audit")

        # The index catches up from its mark.
        async def three() -> bool:
            return len((await ask(group.hubs[1], "query_audit_logs", tool="c__echo"))["results"]) == 3

        await until(three)

    async with hubs_in_group(tmp_path, postgres, "audit", SERVERS) as group:
        first, second = group.hubs
        here, there = (group.group(number).me.address for number in (0, 1))
        await call_tool(first, "c__echo", word="Größe 50 %")
        await call_tool(second, "c__echo", word="other")

        async def both() -> bool:
            return len((await ask(first, "query_audit_logs", tool="c__echo"))["results"]) == 2

        await until(both, "the entries of the other hub are there")
        found = await ask(first, "query_audit_logs", tool="c__ec*")
        assert names(found) == [(there, "c__echo"), (here, "c__echo")]
        assert (found["total"], found["exact"], "problem" in found) == (2, True, False)
        # Pages go over the entries of all hubs.
        page = await ask(second, "query_audit_logs", tool="c__echo", limit=1)
        assert names(page) == [(there, "c__echo")]
        page = await ask(second, "query_audit_logs", tool="c__echo", limit=1, cursor=page["next_cursor"])
        assert (names(page), page["next_cursor"]) == ([(here, "c__echo")], None)
        # One hub, one entry, a text.
        assert names(await ask(second, "query_audit_logs", tool="c__echo", hub=here)) == [(here, "c__echo")]
        mine = await ask(second, "query_audit_logs", tool="c__echo", hub="this")
        assert names(mine) == [(there, "c__echo")]
        seq = found["results"][1]["seq"]
        (one,) = (await ask(second, "query_audit_logs", seq=seq, hub=here))["results"]
        assert one["arguments"] == {"word": "Größe 50 %"}
        assert "mac" not in one
        found = await ask(second, "query_audit_logs", text="GRößE 50 %")
        assert names(found) == [(here, "c__echo")]
        assert names(await ask(second, "query_audit_logs", text="grÖße 50 %")) == []
        counts = await ask(second, "get_audit_stats")
        assert {"name": "c__echo", "count": 2} in counts["by_name"]
        assert {row["name"] for row in counts["by_hub"]} == {here, there}
        assert counts["earliest"] <= counts["latest"]
        person = await visitor(second)
        assert (await person.sign_in()).status == 200
        shown = text(await person.content("/audit?tool=c__echo"))
        assert f"/audit/{seq}?hub={quote(here, safe='')}" in shown
        entry = text(await person.content(f"/audit/{seq}?hub={quote(here, safe='')}"))
        assert here in entry
        assert "Größe" in entry
        await until_away(group, postgres)


def line(seq: int, **members: Any) -> bytes:
    body = {
        "seq": seq,
        "time": f"2026-01-01T00:00:{seq % 60:02}.000Z",
        "type": "call",
        "name": "t",
        **members,
    }
    return json.dumps(body, separators=(",", ":")).encode()[:-1] + b',"mac":"' + b"0" * 64 + b'"}\n'


def test_the_index_goes_on_from_its_mark_and_notices_another_log(tmp_path: Path) -> None:
    first, second = tmp_path / f"{1:016}.jsonl", tmp_path / f"{4:016}.jsonl"
    assert next_part(str(tmp_path), None) is None
    first.write_bytes(b"".join(line(seq) for seq in (1, 2)) + b'{"torn')
    part = next_part(str(tmp_path), None)
    assert part is not None
    assert ([entry.seq for entry in part.entries], part.begins, part.more) == ([1, 2], True, False)
    assert part.entries[0].line == '{"seq":1,"time":"2026-01-01T00:00:01.000Z","type":"call","name":"t"}'
    assert next_part(str(tmp_path), part.mark) is None
    first.write_bytes(b"".join(line(seq) for seq in (1, 2, 3)))
    large = "x" * LARGEST_ENTRY
    # A crash left a torn line at the end of a file.
    with first.open("ab") as opened:
        opened.write(b'{"seq"')
    second.write_bytes(line(4, arguments={"text": large}))
    part = next_part(str(tmp_path), part.mark)
    assert part is not None
    assert ([entry.seq for entry in part.entries], part.begins, part.more) == ([3], False, True)
    part = next_part(str(tmp_path), part.mark)
    assert part is not None
    assert ([entry.seq for entry in part.entries], part.more) == ([4], False)
    assert f'"arguments_size":{len(large) + 11}' in part.entries[0].line
    # The log removes its oldest file.
    first.unlink()
    part = next_part(str(tmp_path), part.mark)
    assert part is not None
    assert (part.entries, part.mark.oldest) == ([], 4)
    # Somebody deleted the log, and it begins again.
    second.unlink()
    first.write_bytes(line(1, name="again"))
    part = next_part(str(tmp_path), part.mark)
    assert part is not None
    assert ([entry.name for entry in part.entries], part.begins) == (["again"], True)
