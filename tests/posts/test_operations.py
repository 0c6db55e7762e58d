"""What operations on posts answer besides searches: rows, texts as the original's, streams, counts."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import struct
from contextlib import suppress
from datetime import UTC
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.errors import BadArguments, UnknownName
from tabane.operations import Caller, Face, input_schema
from tabane.posts.post import Post
from tabane.search.source import SearchAnswer, SearchRequest, shown
from tabane.text.time_zones import bound, zone_of
from tests.posts.archive import CALLER, Filed, opened, packed

_NEAR = (1.0, 0.0, 0.0)


def _post(number: int, content: str, user: str = "alice", **more: Any) -> Post:
    url = f"https://x.com/{user}/status/{number}" if user else ""
    return Post(post_id=number, content=content, user=user, url=url, **more)


_FEW = [
    Filed(
        _post(
            1,
            "body\n\n  \nsecond line",
            timestamp="2024-03-15 14:30:25",
            at=1_710_513_025,
            reasoning="because",
            summary="short",
            tags=("x",),
        ),
        {"content": (0.879, 0.4768, 0.0)},
    ),
    Filed(
        _post(2, "other", "Bob", timestamp="2023-01-02 03:04:05", at=1_672_628_645),
        {"content": (0.1, 1.0, 0.0)},
    ),
]


async def test_search_results_read_as_the_originals_did() -> None:
    async with opened(_FEW, {"Q": _NEAR}) as asked:
        assert await asked.text("search_similar", query="Q") == (
            '🔍 検索結果: 2件 (クエリ: "Q")\n'
            "\n"
            "1. [0.879] @alice (2024-03-15 14:30:25) https://x.com/alice/status/1\n"
            "   body\n"
            "   second line\n"
            "\n"
            "2. [0.100] @Bob (2023-01-02 03:04:05) https://x.com/Bob/status/2\n"
            "   other\n"
        )
        assert await asked.text("search_posts_by_text", search_term="other") == (
            '📝 テキスト検索結果: 1件 (検索語: "other")\n'
            "\n"
            "1. @Bob (2023-01-02 03:04:05) https://x.com/Bob/status/2\n"
            "   other\n"
        )
        assert (await asked.text("search_similar", "en", query="Q")).startswith(
            '🔍 Search results: 2 (query: "Q")\n\n1. [0.879] @alice'
        )


async def test_statistics_read_as_the_originals_did() -> None:
    filed = [*_FEW, *(Filed(_post(10 + n, f"n{n}", "carol"), {}) for n in range(1234))]
    async with opened(filed) as asked:
        assert await asked.text("get_user_stats", limit=2) == (
            "👥 ユーザー別投稿統計 (上位2人)\n\n1. carol: 1,234投稿\n2. Bob: 1投稿"
        )
        assert await asked.text("get_database_stats") == (
            "📊 データベース統計\n"
            "総投稿数: 1,236件\n"
            "総ユーザー数: 3人\n"
            "データ期間: 2023-01-02 03:04:05 ～ 2024-03-15 14:30:25"
        )
        assert await asked.text("get_status") == (
            "🟢 Tabane Status\n"
            "状態: 稼働中\n"
            "サーバータイプ: TwilogServer\n"
            "モデル: test/three\n"
            "📊 データ統計:\n"
            "・投稿数: 1,236件\n"
            "・ユーザー数: 3人\n"
            "・要約数: 1件\n"
            "・タグ数: 1件"
        )


async def test_an_assistant_is_not_given_what_was_written_for_search() -> None:
    async with opened(_FEW, {"Q": _NEAR}) as asked:
        (whole, bare) = await asked.call("search_similar", query="Q")
        assert whole["post"] == {
            "post_id": 1,
            "post_id_str": "1",
            "content": "body\n\n  \nsecond line",
            "timestamp": "2024-03-15 14:30:25",
            "url": "https://x.com/alice/status/1",
            "user": "alice",
            "log_type": 1,
            "reasoning": "because",
            "summary": "short",
            "tags": ["x"],
        }
        assert {"reasoning", "summary", "tags"}.isdisjoint(bare["post"])
        lean = (await asked.structured("search_similar", query="Q"))["results"]
        assert {"reasoning", "summary", "tags"}.isdisjoint(lean[0]["post"])
        assert lean[0]["post"]["post_id_str"] == "1"
        (post,) = (await asked.structured("search_posts_by_text", search_term="body"))["results"]
        assert {"reasoning", "summary", "tags"}.isdisjoint(post)
        text = await asked.text("search_similar", query="Q")
        assert "because" not in text
        assert "short" not in text


async def test_counts_follow_every_write() -> None:
    async with opened() as asked:
        empty = {"earliest": None, "latest": None}
        assert await asked.call("get_database_stats") == {
            "total_posts": 0, "total_users": 0, "date_range": empty,
        }  # fmt: skip
        assert await asked.text("get_database_stats", "en") == "📊 Database statistics\nPosts: 0\nUsers: 0"
        assert await asked.call("get_user_list") == []
        await asked.put([*_FEW, Filed(_post(3, "third", "ALICE"), {}), Filed(_post(4, "nobody's", ""), {})])
        assert await asked.call("get_database_stats") == {
            "total_posts": 4,
            "total_users": 2,
            "date_range": {"earliest": "2023-01-02 03:04:05", "latest": "2024-03-15 14:30:25"},
        }
        assert await asked.call("get_user_stats") == [
            {"user": "ALICE", "post_count": 2},
            {"user": "Bob", "post_count": 1},
        ]
        await asked.put([Filed(_post(5, "fifth", "alice"), {}), Filed(_post(6, "6", "alice"), {})])
        assert await asked.call("get_user_list") == ["alice", "Bob"]
        assert (await asked.call("get_status"))["data_stats"] == {
            "total_posts": 6, "total_users": 2, "total_summaries": 1, "total_tags": 1,
        }  # fmt: skip
        await asked.collection.delete(["1", "3", "5", "6"])
        assert await asked.call("get_user_stats", limit=None) == [{"user": "Bob", "post_count": 1}]


async def test_tags_are_counted_once_and_nobody_is_no_user() -> None:
    filed = [
        *(Filed(_post(n, f"nobody {n}", "", tags=("a", "b")), {"content": _NEAR}) for n in range(1, 6)),
        Filed(_post(6, "one", "alice", tags=("b", "c", "b")), {"content": _NEAR}),
        Filed(_post(7, "two", "alice"), {"content": _NEAR}),
        Filed(_post(8, "three", "bob"), {"content": _NEAR}),
    ]
    async with opened(filed, {"Q": _NEAR}) as asked:
        assert (await asked.call("get_status"))["data_stats"]["total_tags"] == 3
        assert await asked.call("get_post_facets", field="user") == [
            {"value": "alice", "post_count": 2},
            {"value": "bob", "post_count": 1},
        ]
        assert await asked.call("get_post_facets", field="user", limit=1) == [
            {"value": "alice", "post_count": 2}
        ]

        async def found(**thresholds: int) -> set[int]:
            rows = await asked.call("search_similar", query="Q", user_filter=thresholds)
            return {row["post"]["post_id"] for row in rows}

        # The user of a post without one has no posts, however many such posts there are.
        assert await found(threshold_min=1) == {6, 7, 8}
        assert await found(threshold_min=2) == {6, 7}
        assert await found(threshold_min=2, threshold_max=5) == {6, 7}
        assert await found(threshold_max=1) == {1, 2, 3, 4, 5, 8}
        assert await found(threshold_min=0) == set(range(1, 9))


async def test_no_results_are_said_as_the_original_said_it() -> None:
    async with opened(_FEW, {"Q": _NEAR}) as asked:
        limits: Any = {"user_filter": {"includes": ["nobody"]}}
        assert await asked.text("search_similar", query="Q", **limits) == "検索結果が見つかりませんでした"
        assert await asked.text("search_posts_by_text", search_term="absent") == (
            '検索結果が見つかりませんでした (検索語: "absent")'
        )
        assert await asked.text("search_similar", "en", query="Q", **limits) == "No search results were found"


async def test_a_vector_is_shown_by_its_first_twenty_characters() -> None:
    async with opened(_FEW, {"Q": _NEAR}) as asked:
        whole = (await asked.call("embed_text", text="Q"))["vector"]
        assert await asked.text("embed_text", text="Q") == (
            f"ベクトル化成功:\nBase64データ長: {len(whole)}文字\nBase64データ（先頭20文字）: {whole[:20]}..."
        )
        assert await asked.structured("embed_text", text="Q") == {"length": len(whole), "first": whole[:20]}


async def test_parameters_that_only_the_originals_have_are_accepted() -> None:
    async with opened(_FEW, {"Q": _NEAR}) as asked:
        plain = await asked.call("get_status")
        assert await asked.call("get_status", websocket_url="ws://localhost:8765") == plain
        found = await asked.call("search_similar", query="Q")
        older = {"top_k": 10, "mode_settings": {"mode": "average"}, "remove_duplicates": True}
        assert await asked.call("search_similar", query="Q", settings=older) == found
        assert await asked.call("search_similar", query="Q", remove_duplicates=True) == found
        for name in ("get_status", "search_similar"):
            operation = asked.door.operation(CALLER, name)
            shown = input_schema(operation.params)["properties"]
            assert {"websocket_url", "settings", "remove_duplicates"}.isdisjoint(shown)


async def test_missing_users_are_given_the_nearest_names() -> None:
    names = ["alice", "Alicia", "bob", "alex", "malice", "Zoe", "alibi"]
    filed = [Filed(_post(number, f"p{number}", name), {}) for number, name in enumerate(names, 1)]
    async with opened(filed) as asked:
        found = await asked.call("suggest_users", user_list=["@ALICE", "alise", "Bob", "zoë"])
        assert list(found) == ["alise", "zoë"]
        assert found["alise"][0] == "alice"
        assert len(found["alise"]) == 5
        assert "bob" not in found["alise"]
        assert found["zoë"][0] == "Zoe"
        assert await asked.call("suggest_users", user_list=["bob"]) == {}
        for bad in ([], "alice", [5], None):
            with pytest.raises(BadArguments) as raised:
                await asked.call("suggest_users", user_list=bad)
            assert (raised.value.parameter or "").startswith("user_list")


async def test_periods_are_those_of_the_zone() -> None:
    # 1970-01-31 20:00 UTC is the first of February in Tokyo.
    hours = [0, 30 * 24 + 20, 31 * 24, 365 * 24 + 1]
    filed = [
        Filed(_post(n, f"p{n}", "a" if n % 2 else "b", at=hour * 3600, tags=("x",) * (n == 1)), {})
        for n, hour in enumerate(hours, 1)
    ]
    async with opened(filed, zone=zone_of("Asia/Tokyo")) as asked:

        def rows(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
            return [{"period": period, "post_count": count} for period, count in pairs]

        assert await asked.call("get_timeline") == rows(("1970-01", 1), ("1970-02", 2), ("1971-01", 1))
        assert await asked.call("get_timeline", unit="year") == rows(("1970", 3), ("1971", 1))
        assert await asked.call("get_timeline", unit="day", user="@B") == rows(
            ("1970-02-01", 1), ("1971-01-01", 1)
        )
        assert await asked.call("get_timeline", unit="year", tags=["x"]) == rows(("1970", 1))
        late = {"from": "1970-02-01 00:00:00", "to": "1970-02-01 05:00:00"}
        assert await asked.call("get_timeline", date_filter=late) == rows(("1970-02", 1))
        assert await asked.text("get_timeline", "en", unit="year") == "1970: 3 posts\n1971: 1 post"


async def test_values_are_counted_among_the_posts_that_are_meant() -> None:
    filed = [
        Filed(_post(1, "a", "Alice", tags=("x", "y")), {}),
        Filed(_post(2, "b", "alice", tags=("x",), log_type=2), {}),
        Filed(_post(3, "c", "Alice", tags=("z",), log_type=3), {}),
    ]
    async with opened(filed) as asked:

        async def counts(**params: Any) -> dict[str, int]:
            return {row["value"]: row["post_count"] for row in await asked.call("get_post_facets", **params)}

        assert await counts(field="tags") == {"x": 2, "y": 1, "z": 1}
        assert await counts(field="tags", log_type=["post", "bookmark"]) == {"x": 1, "y": 1, "z": 1}
        assert await counts(field="log_type", tags=["x"]) == {"post": 1, "like": 1}
        assert await counts(field="user") == {"Alice": 3}
        assert len(await counts(field="tags", limit=1)) == 1


@pytest.mark.heavy("a large archive")
async def test_an_export_has_every_post_as_it_was() -> None:
    filed = [
        Filed(
            _post(n, f'"{n}" <b>&amp;</b>\n東京, ' + "語" * (n % 7) * 1500, timestamp=f"t{n}", tags=("x",)),
            {},
        )
        for n in range(1, 451)
    ]
    async with opened(filed) as asked:
        parts = await asked.stream("export_posts")
        assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
        assert all(len(msgspec.json.encode(part.value)) < 1_000_000 for part in parts)
        lines = "".join(part.value["data"] for part in parts).splitlines()
        posts = {post["post_id"]: post for post in map(json.loads, lines)}
        assert {n: (p["content"], p["timestamp"], p["tags"]) for n, p in posts.items()} == {
            each.post.post_id: (each.post.content, each.post.timestamp, ["x"]) for each in filed
        }
        text = "".join(part.value["data"] for part in await asked.stream("export_posts", format="csv"))
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert {(int(row[0]), row[1], row[2], html.unescape(row[3]), int(row[4])) for row in rows} == {
            (p.post_id, p.url, p.timestamp, p.content, 1) for p in (each.post for each in filed)
        }
        some = await asked.stream("export_posts", user_filter={"includes": ["nobody"]})
        assert "".join(part.value["data"] for part in some) == ""


async def test_a_vector_comes_as_a_file_of_safetensors() -> None:
    async with opened([], {"Q": _NEAR}) as asked:
        whole = base64.b64decode((await asked.call("embed_text", text="Q"))["vector"])
        (size,) = struct.unpack_from("<Q", whole)
        head = json.loads(whole[8 : 8 + size])
        assert head == {"vector": {"dtype": "F32", "shape": [1, 3], "data_offsets": [0, 12]}}
        assert whole[8 + size :] == packed(_NEAR)
        assert size % 8 == 0
        with pytest.raises(BadArguments):
            await asked.call("embed_text", text="")


async def test_one_post_is_shown_by_either_form_of_its_number() -> None:
    number = 2**63 - 1
    async with opened([Filed(_post(number, "last"), {})]) as asked:
        assert await asked.call("get_post", post_id=number) == await asked.call(
            "get_post", postId=str(number)
        )
        assert (await asked.call("get_post", post_id=str(number)))["post_id"] == number
        for bad in (5, "x", -1, 2**63, "9" * 25, None, 1.5):
            with pytest.raises(BadArguments):
                await asked.call("get_post", post_id=bad)


async def test_posts_are_found_among_other_things() -> None:
    async with opened(_FEW) as asked:
        source = asked.archive.searching
        answer = await shown(source, CALLER, SearchRequest("second | line", 5))
        (item,) = (hit.item for hit in answer.hits)
        card, passage = item.card, item.snippet()
        assert (card.key, card.title) == ("1", "@alice 2024-03-15 14:30:25")
        assert [passage.text[first:last] for first, last in passage.marks] == ["second", "line"]
        assert answer.warning is not None
        assert await source.search(CALLER, SearchRequest("  ", 5)) == SearchAnswer()


async def test_streams_and_persons_operations_are_no_tools() -> None:
    async with opened() as asked:
        tools = asked.door.table.with_face(Face.MCP)
        assert [tool.name for tool in tools] == [
            "search_similar",
            "search_posts_by_text",
            "get_user_stats",
            "get_database_stats",
            "suggest_users",
            "get_status",
            "get_post",
            "embed_text",
        ]
        assert all(operation.public and operation.read_only for operation in asked.door.table)
        shown = input_schema(asked.door.operation(CALLER, "search_similar").params)
        assert "settings" not in shown["properties"]
        assert shown["properties"]["top_k"] == {
            "type": "integer", "minimum": 1, "maximum": 100, "default": 10,
        }  # fmt: skip
        assert set(shown["properties"]["date_filter"]["properties"]) == {"from", "to"}
        assistant = Caller("local", Face.MCP, "test")
        with pytest.raises(UnknownName):
            asked.door.stream(assistant, "vector_search", b"{}")


_DAYS = st.dates()


@settings(max_examples=80)
@given(_DAYS, st.sampled_from(["{0}", "{0.year:04}{0.month:02}{0.day:02}", "{0.year:04}-{0.month}-{0.day}"]))
def test_a_day_is_its_begin_or_its_end(day: Any, form: str) -> None:
    text = form.format(day)
    low, high = bound(text, UTC, "from", end=False), bound(text, UTC, "to", end=True)
    assert high - low == pytest.approx(86_400)
    assert bound(f"{day.isoformat()} 00:00:00", UTC, "to", end=True) == low


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2024-03-15 14:30:25", "Asia/Tokyo", 1_710_480_625),
        ("2024-03-15 14:30:25", "+09:00", 1_710_480_625),
        ("2024-03-15T05:30:25Z", "Asia/Tokyo", 1_710_480_625),
        ("2024-03-15T14:30:25+09:00", "UTC", 1_710_480_625),
        ("2024-3-15 14:30", "+0900", 1_710_480_600),
        (" 20240315 ", "Asia/Tokyo", 1_710_428_400),
    ],
)
def test_moments_are_read_in_their_zone(text: str, zone: str, expected: float) -> None:
    assert bound(text, zone_of(zone), "from", end=False) == expected


@given(st.text(max_size=30))
def test_what_is_no_date_is_a_bad_argument_and_nothing_else(text: str) -> None:
    with suppress(BadArguments):
        assert isinstance(bound(text, UTC, "date_filter.from", end=False), float)


async def test_mode_product_multiplies_the_cosines_as_they_are() -> None:
    def cosines(*wanted: float) -> dict[str, tuple[float, float, float]]:
        spaces = zip(("content", "reasoning", "summary"), wanted, strict=True)
        return {space: (each, (1 - each * each) ** 0.5, 0.0) for space, each in spaces}

    wanted = {
        1: (0.5, 0.5, 0.5),
        2: (-0.9, -0.8, 0.9),
        3: (-0.1, 0.2, 0.3),
        4: (-0.9, -0.9, -0.9),
        5: (0, 1, 1),
    }
    filed = [Filed(_post(number, f"p{number}"), cosines(*each)) for number, each in wanted.items()]
    async with opened(filed, {"Q": _NEAR}) as asked:
        found = await asked.call("search_similar", query="Q", mode="product")
        products = {number: a * b * c for number, (a, b, c) in wanted.items()}
        assert [row["post"]["post_id"] for row in found] == sorted(products, key=lambda n: -products[n])
        for row in found:
            assert row["score"] == pytest.approx(products[row["post"]["post_id"]], abs=1e-5)
