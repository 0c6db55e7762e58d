"""Words alone find tools described in English and in Chinese, for queries in Japanese and English."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabane.catalog.tools.index import ToolIndex, ToolQuery
from tabane.search.analysis import cjk_runs
from tabane.search.concepts import glossary
from tests.catalog.tools.tools import tool
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

CHINESE = {
    "weather": "查询指定城市的天气预报和气温。",
    "map": "在地图上搜索附近的地点和路线规划。",
    "translate": "将文本翻译成其他语言。",
    "stocks": "获取股票的实时价格和历史数据。",
    "music": "播放音乐和歌曲。",
    "news": "获取最新新闻和热搜榜。",
    "files": "读取文件内容。",
}
ENGLISH = {
    "render": "Create a pie chart, a bar chart or a line chart from data.",
    "flow": "Draw a flowchart from a description.",
    "dice": "Generate random numbers between two limits.",
    "stays": "Find vacation rentals and hotels.",
    "cities": "Compare the livability and the cost of living of cities.",
    "ledger": "Keep a household budget: record expenses and income.",
    "meals": "Suggest a recipe for dinner.",
    "cards": "Scan a business card and save the contact.",
    "post": "Publish a message to a channel.",
}


@pytest.fixture
def index() -> Iterator[ToolIndex]:
    index = ToolIndex(":memory:")
    for server, tools in (("zh", CHINESE), ("en", ENGLISH)):
        # The names say nothing, so that the descriptions are found.
        found = [
            tool(f"t{number}", text, server=server, title="") for number, text in enumerate(tools.values())
        ]
        index.replace(server, found)
    yield index
    index.close()


def best(index: ToolIndex, query: str) -> str:
    hits = index.search(ToolQuery(query)).hits
    return hits[0].alias if hits else ""


def alias(server: str, tools: dict[str, str], name: str) -> str:
    return f"{server}__t{list(tools).index(name)}"


@pytest.mark.parametrize(
    ("query", "name"), CASES["a_chinese_description_is_found_where_the_words_are_written_alike"]
)
def test_a_chinese_description_is_found_where_the_words_are_written_alike(
    index: ToolIndex, query: str, name: str
) -> None:
    assert best(index, query) == alias("zh", CHINESE, name)


@pytest.mark.parametrize(("query", "name"), CASES["an_english_description_is_found_by_everyday_japanese"])
def test_an_english_description_is_found_by_everyday_japanese(
    index: ToolIndex, query: str, name: str
) -> None:
    assert best(index, query) == alias("en", ENGLISH, name)


@pytest.mark.parametrize(
    ("query", "headwords"), CASES["chinese_is_not_taken_for_japanese_but_for_words_that_both_have"]
)
def test_chinese_is_not_taken_for_japanese_but_for_words_that_both_have(
    query: str, headwords: list[str]
) -> None:
    found = [run[start:end] for run in cjk_runs(query) for start, end in glossary().segments(run)]
    assert found == headwords
