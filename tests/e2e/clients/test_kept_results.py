"""Queries on kept results: by read_more, by scripts, and what they cost others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.harness.labeled_servers import replayed
from tests.harness.patience import until
from tests.harness.running_hub import Json, SocketClient, child, running_hub, text

PART = "io.github.tabane/part"

ISSUES = {
    "total": 3_000,
    "issues": [
        {"id": number, "state": "open" if number % 3 else "closed", "title": f"{number} 番の課題"}
        for number in range(3_000)
    ],
}
LINES = "".join(
    f"{'ERROR' if number % 100 == 0 else 'INFO'} {number} 一行の文章\n" for number in range(3_000)
)

SLOW_REGEX = r"^(\S|\S\S)*!$"
LARGE = {"items": [{"id": number, "text": "あ" * 200} for number in range(3_000)]}


def raw(said: str, **members: object) -> str:
    return json.dumps({"content": [{"type": "text", "text": said}], **members})


async def kept(line: SocketClient, said: str, **members: object) -> tuple[Json, str]:
    """The first part of a result with that text, and its handle."""
    first = await line.through("up__raw", json=raw(said, **members))
    return first, first["_meta"][PART]["next"]


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def note(part: Json) -> str:
    said: str = part["content"][-1]["text"]
    return said


@pytest.mark.parametrize("structured", [False, True])
async def test_a_result_says_what_it_is_and_is_queried_without_being_read(
    tmp_path: Path, structured: bool
) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect()
        members = {"structuredContent": ISSUES} if structured else {}
        said = LINES if structured else json.dumps(ISSUES)
        first, handle = await kept(line, said, **members)
        assert "JSON {total, issues[3,000]{id, state, title}}" in note(first)
        example = note(first).split("JMESPath: read_more ")[1].split(", also with")[0]
        ids = await line.call("read_more", **json.loads(example))
        assert text(ids).startswith("[0,1,2,3,")
        groups = await line.call("read_more", handle=handle, select="issues[].state", aggregate="group")
        assert json.loads(text(groups)) == {"open": 2_000, "closed": 1_000}
        one = await line.call("read_more", handle=handle, select="issues[?id==`2999`].title | [0]")
        assert text(one) == '"2999 番の課題"'
        wrong = await line.call("read_more", handle=handle, select="items[0]")
        assert wrong["isError"]
        assert "issues[3,000]" in text(wrong)


async def test_a_text_is_queried_by_lines_and_expressions(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect()
        first, handle = await kept(line, LINES)
        assert "text of 3,000 lines" in note(first)
        some = await line.call("read_more", handle=handle, lines="120-121")
        assert text(some) == "INFO 119 一行の文章\nINFO 120 一行の文章"
        errors = await line.call("read_more", handle=handle, regex="^ERROR", lines="-150")
        assert text(errors) == "2901: ERROR 2900 一行の文章\n1 of 150 lines matches."
        # What a query finds may be too long, too: then it is kept in the same way.
        again = await line.call("read_more", handle=handle, regex="INFO")
        counted = await line.call(
            "read_more", handle=again["_meta"][PART]["next"], regex="文章", aggregate="count"
        )
        assert text(counted) == "2970"


async def test_a_script_opens_a_kept_result_as_a_value(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line, other = await here.connect(mode="code"), await here.connect(mode="code")
        code = (
            "from tools import open_result\nfound = await open_result(handle)\n"
            "titles = await open_result(handle, select='issues[:2].title')\n"
            "[len(found['issues']), titles, type(await open_result(log)).__name__]"
        )
        _, handle = await kept(line, json.dumps(ISSUES))
        _, log = await kept(line, LINES)
        result = await line.call("run_script", code=code, inputs={"handle": handle, "log": log})
        assert json.loads(text(result)) == [3_000, ["0 番の課題", "1 番の課題"], "str"]
        refused = await other.call("run_script", code=code, inputs={"handle": handle, "log": log})
        assert refused["isError"]
        assert "Call the tool again" in text(refused)
        small = "from tools import open_result\nawait open_result(handle, size=1)"
        assert "no parameter size" in text(
            await line.call("run_script", code=small, inputs={"handle": handle})
        )


async def test_a_long_result_of_a_script_is_kept_as_its_value(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect(mode="code")
        made = await line.call(
            "run_script", code="print('made')\n{'rows': [{'n': n, 'name': 'x' * 20} for n in range(500)]}"
        )
        assert "JSON {rows[500]{n, name}}" in note(made)
        handle = made["_meta"][PART]["next"]
        opened = f"from tools import open_result\nlen((await open_result('{handle}'))['rows'])"
        assert f'await open_result("{handle.partition(".")[0]}")' in note(made)
        assert text(await line.call("run_script", code=opened)) == "500"
        counted = await line.call("read_more", handle=handle, select="rows", aggregate="count")
        assert text(counted) == "500"


async def test_a_result_that_is_too_large_for_a_script_is_refused_with_a_way_out(tmp_path: Path) -> None:
    settings = {"result_tokens": 1_000, "script_memory": 4 << 20}
    async with running_hub(tmp_path, {"up": child()}, **settings) as here:
        line = await here.connect(mode="code")
        _, handle = await kept(line, json.dumps(LARGE, ensure_ascii=False))
        code = "from tools import open_result\nawait open_result(handle{})"
        whole = await line.call("run_script", code=code.format(""), inputs={"handle": handle})
        assert "select=" in text(whole)
        some = code.format(", select='items[-1].id'")
        assert text(await line.call("run_script", code=some, inputs={"handle": handle})) == "2999"


@pytest.mark.heavy("hubs and servers as processes")
async def test_hostile_queries_delay_nobody_and_end(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        bad, good = await here.connect(), await here.connect()
        _, log = await kept(bad, "a" * 5_000 + "\n" + LINES)
        _, issues = await kept(bad, json.dumps(ISSUES))
        _, mine = await kept(good, json.dumps(ISSUES))
        squared = "issues[].[" + ",".join(["@"] * 20) + "][].[" + ",".join(["@"] * 20) + "][]" * 5
        hostile = [
            asyncio.ensure_future(bad.call("read_more", handle=log, regex=SLOW_REGEX)),
            asyncio.ensure_future(bad.call("read_more", handle=issues, select=squared + "[]" * 100)),
        ]
        counted = await good.call("read_more", handle=mine, select="issues", aggregate="count")
        assert text(counted) == "3000"
        assert not hostile[0].done()
        ended = [await each for each in hostile]
        assert ended[0]["isError"]
        assert "CPU time" in text(ended[0])
        # The next query of that client works.
        assert text(await bad.call("read_more", handle=log, lines="2")) == "ERROR 0 一行の文章"


@pytest.mark.heavy("hubs and servers as processes")
async def test_large_results_are_on_disk_without_a_name_and_the_oldest_makes_way(tmp_path: Path) -> None:
    settings = {"result_tokens": 1_000, "result_disk": 5 << 20, "max_line": 32 << 20}
    settings |= {"learn_result_types": False}  # a file is written for them
    async with running_hub(tmp_path, {"up": child()}, **settings) as here:
        bad, good = await here.connect(), await here.connect()
        _, mine = await kept(good, json.dumps(ISSUES))
        before = files(tmp_path)
        size = json.dumps(LARGE, ensure_ascii=False)
        handles = [(await kept(bad, size))[1] for _ in range(4)]
        documents = [each.document for each in here.hub.long_results._kept.values()]
        assert [each.on_disk > 1 << 20 for each in documents] == [False, True, True]
        assert files(tmp_path) == before
        assert "Call the tool again" in text(await bad.call("read_more", handle=handles[0]))
        last = await bad.call("read_more", handle=handles[-1], select="items[-1].id")
        assert text(last) == "2999"
        more = await bad.call("read_more", handle=handles[-1])
        assert more["content"][0]["text"] in size
        # Whoever keeps much drops nothing of others.
        assert text(await good.call("read_more", handle=mine, select="total")) == "3000"
        await bad.close()
        await until(lambda: len(here.hub.long_results) == 1)


async def test_a_query_brings_back_the_flow_labels_of_its_tool(tmp_path: Path) -> None:
    servers = {"up": child(labels=["private"], maxResultTokens=1_000), "mail": replayed(tmp_path, "mail")}
    settings = {"flow_policy": "ask", "result_tokens": 1_000, "script_writes": "allow"}
    async with running_hub(tmp_path, servers, **settings) as here:
        line = await here.connect()
        _, handle = await kept(line, LINES)
        code = "from tools import up\n(await up.raw(json=said))"
        scripted = await line.call("run_script", code=code, inputs={"said": raw(LINES)})
        for kind in (handle, scripted["_meta"][PART]["next"]):
            assert here.hub.flows.state().forget(lambda key: True) == 1
            await line.call("read_more", handle=kind, lines="1")
            rule = here.hub.flows.rule
            assert rule is not None
            (trail,) = rule.trails
            assert trail.private == {"up": "up__raw"}
