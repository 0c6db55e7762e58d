"""What every index of words keeps, and every index of substrings: subclass with a way to open an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tabane.errors import BadArguments
from tabane.search.engine import Collection, LexicalQuery, Mode
from tabane.search.records import EVERYTHING, And, Contains, Equal, Not, Range, Record
from tabane.search.typed_query import typed
from tests.engine.embedded.contract import EngineContract
from tests.engine.embedded.lexical.homes import bodies, found

# Words of two characters, as people search for them; each with a text that has it inside.
TWO = [
    "東京",
    "株価",
    "金利",
    "検索",
    "京都",
    "猫舌",
    "経済",
    "大学",
    "会社",
    "日本",
    "研究",
    "開発",
    "映画",
    "料理",
]


class LexicalContract(EngineContract):
    """Words, phrases, exclusion and prefixes."""

    @asynccontextmanager
    async def holding(self, texts: list[str]) -> AsyncIterator[Collection]:
        async with self.empty() as collection:
            await collection.upsert(bodies(texts))
            yield collection

    @pytest.mark.parametrize("word", TWO)
    async def test_a_word_of_two_characters_is_found_where_it_stands_and_nowhere_else(
        self, word: str
    ) -> None:
        texts = [f"昨日の{each}について話を聞いた" for each in TWO]
        async with self.holding(texts) as collection:
            assert await found(collection, word) == [f"k{TWO.index(word):03}"]

    @pytest.mark.parametrize(
        ("query", "keys"),
        [
            ("猫", {"k000", "k001", "k002"}),
            (LexicalQuery("猫", Mode.ALL), {"k000", "k001", "k002"}),
            (LexicalQuery("犬", exclude=("猫",)), {"k003"}),
            (LexicalQuery("", phrases=("猫",)), {"k000", "k001", "k002"}),
            (LexicalQuery("猫 写真", Mode.ALL), {"k001"}),
        ],
    )
    async def test_a_word_of_one_character_is_found_within_others(
        self, query: str | LexicalQuery, keys: set[str]
    ) -> None:
        async with self.holding(["猫", "黒猫の写真", "白い猫と犬", "犬の散歩", "cat"]) as collection:
            assert set(await found(collection, query)) == keys

    async def test_a_word_ranks_above_a_longer_one_that_spans_it(self) -> None:
        texts = [
            "東京都の東京都による東京都のための東京都",
            "秋の京都を訪ねて、紅葉の寺をめぐり、鴨川のほとりを歩き、夜は湯豆腐を食べてゆっくりと休んだ",
            "ブログの書き方とブログの始め方、ブログ",
            "サーバのログを見て、何が起きたかを長い時間をかけて調べ、分かったことを紙に書いて皆に配った",
        ]
        async with self.holding(texts) as collection:
            assert (await found(collection, "京都"))[0] == "k001"
            assert (await found(collection, "ログ"))[0] == "k003"
            assert (await found(collection, "東京都"))[0] == "k000"

    async def test_a_phrase_is_found_however_its_marks_are_written(self) -> None:
        async with self.holding([text for text, _ in SPELT]) as collection:
            for number, (text, needle) in enumerate(SPELT[:-2]):
                if any(mark in needle for mark in '"❤'):
                    continue  # of these, words are only what stands beside them
                for query in (needle, LexicalQuery("", phrases=(needle,)), LexicalQuery("", phrases=(text,))):
                    assert f"k{number:03}" in await found(collection, query), query
                excluding = LexicalQuery("の ok of it the", exclude=(needle,))
                assert f"k{number:03}" not in await found(collection, excluding), needle

    async def test_a_reading_in_a_word_does_not_divide_it(self) -> None:
        texts = [
            "毎朝パンを食(た)べる人",
            "短《たん》槍《そう》を持つ",
            "東京（とうきょう）都へ",
            "会議(あした)",
            "f(x)の値",
        ]
        async with self.holding(texts) as collection:
            assert await found(collection, LexicalQuery("", phrases=("食べる",))) == ["k000"]
            assert await found(collection, LexicalQuery("", phrases=("短槍を",))) == ["k001"]
            assert await found(collection, LexicalQuery("東京都へ", Mode.ALL)) == ["k002"]
            assert await found(collection, "とうきょう") == ["k002"]
            assert await found(collection, "たん") == ["k001"]
            assert await found(collection, LexicalQuery("", phrases=("会議",))) == ["k003"]

    async def test_all_records_with_a_beginning_are_found_and_the_commonest_words_first(self) -> None:
        rare = [f"gre{number:02}" for number in range(40)]
        async with self.holding([*rare, *["green"] * 10, "grey", "gold"]) as collection:
            whole = await found(collection, LexicalQuery("gre", prefix=True))
            assert len(whole) == len(set(whole)) == 51
            # Of so many words, the commonest are scored; what has none of them comes last.
            assert {f"k{number:03}" for number in range(40, 50)} <= set(whole[:26])
            for few in (1, 5, 25):
                assert await found(collection, LexicalQuery("gre", prefix=True), limit=few) == whole[:few]
            assert set(await found(collection, LexicalQuery("gree", prefix=True))) == set(whole[:51]) - (
                {f"k{number:03}" for number in range(40)} | {"k050"}
            )
            without = LexicalQuery("gre", exclude=("green",), prefix=True)
            assert len(await found(collection, without)) == 41

    async def test_spellings_of_a_word_are_one(self) -> None:
        async with self.holding(
            ["サーバの話", "データの話", "searching abc", "本当にありがとうございました"]
        ) as collection:
            assert await found(collection, "サーバー") == ["k000"]
            assert await found(collection, "ﾃﾞｰﾀ") == ["k001"]
            assert await found(collection, "searches ＡＢＣ") == ["k002"]
            assert await found(collection, "ありがとう") == ["k003"]

    @pytest.mark.parametrize(
        ("query", "keys"),
        [
            ("red green", {"k000", "k001", "k002", "k003"}),
            (LexicalQuery("red green", Mode.ALL), {"k000", "k001"}),
            (LexicalQuery("red green", Mode.PHRASE), {"k000"}),
            (LexicalQuery("red", exclude=("green",)), {"k002"}),
            (LexicalQuery("red", phrases=("green apples",)), {"k000", "k001"}),
            (LexicalQuery("gre", prefix=True), {"k000", "k001", "k003"}),
            (LexicalQuery("red gre", Mode.ALL, prefix=True), {"k000", "k001"}),
            (LexicalQuery("株価の上昇", Mode.PHRASE), {"k004"}),
            (LexicalQuery("上がりそう", Mode.ALL), {"k005"}),
            (LexicalQuery("がりそうだ", Mode.PHRASE), {"k005"}),
            (LexicalQuery("株価", exclude=("上昇",)), {"k005"}),
            (LexicalQuery("e-mail", Mode.ALL), {"k006", "k007"}),
            (LexicalQuery("absent", Mode.ALL), set()),
            ("、。 -", set()),
            (typed('"red green" -pears'), {"k000"}),
        ],
    )
    async def test_words_meet_as_they_were_asked_to(self, query: str | LexicalQuery, keys: set[str]) -> None:
        texts = [
            "red green apples",
            "red and green apples",
            "red pears",
            "greens",
            "株価の上昇",
            "株価が上がりそうだ",
            "an e-mail",
            "an email",
        ]
        async with self.holding(texts) as collection:
            assert set(await found(collection, query)) == keys

    @pytest.mark.parametrize(
        ("query", "keys"),
        [
            (LexicalQuery("", spellings=(("はいしゃ", "歯医者", "廃車"),)), {"k000", "k001", "k002"}),
            (
                LexicalQuery("", spellings=(("haisha", "歯医者"), ("yoyaku", "予約"))),
                {"k000", "k003", "k004"},
            ),
            (LexicalQuery("", Mode.ALL, spellings=(("はいしゃ", "歯医者"), ("よやく", "予約"))), {"k000"}),
            (LexicalQuery("", exclude=("予約",), spellings=(("はいしゃ", "歯医者"),)), {"k001"}),
            (LexicalQuery("", spellings=(("くすり", "薬"),)), {"k005"}),
        ],
    )
    async def test_a_word_is_found_in_each_of_its_spellings(
        self, query: LexicalQuery, keys: set[str]
    ) -> None:
        texts = [
            "歯医者を予約",
            "はいしゃさんの絵本",
            "廃車の手続き",
            "宿の予約",
            "yoyaku 403",
            "頭痛の薬を買う",
        ]
        async with self.holding(texts) as collection:
            assert set(await found(collection, query)) == keys

    async def test_a_title_weighs_more_than_a_body_and_can_be_asked_alone(self) -> None:
        async with self.holding([]) as collection:
            await collection.upsert(
                [
                    Record(key="body", texts={"title": "other words", "body": "apple pie"}),
                    Record(key="title", texts={"title": "apple pie", "body": "other words"}),
                ]
            )
            assert await found(collection, "apple") == ["title", "body"]
            assert await found(collection, LexicalQuery("apple", fields=("body",))) == ["body"]
            with pytest.raises(BadArguments):
                await found(collection, LexicalQuery("apple", fields=("absent",)))

    async def test_pages_follow_each_other_and_ties_are_in_order_of_keys(self) -> None:
        texts = ["apple pie" if number % 3 else "apple" for number in range(90)]
        async with self.holding(texts) as collection:
            whole = [hit.key for hit in (await collection.search(LexicalQuery("apple"), EVERYTHING, 90)).hits]
            assert whole == sorted(whole, key=lambda key: (int(key[1:]) % 3 > 0, key))
            pages = [
                hit.key
                for offset in range(0, 90, 7)
                for hit in (await collection.search(LexicalQuery("apple"), EVERYTHING, 7, offset)).hits
            ]
            assert pages == whole
            assert (await collection.search(LexicalQuery("apple"), EVERYTHING, 7, 200)).hits == ()

    async def test_writes_are_seen_at_once(self) -> None:
        async with self.holding([]) as collection:
            for number in range(30):
                await collection.upsert([Record(key="one", texts={"body": f"word{number}"})])
                assert await found(collection, f"word{number}") == ["one"]
                assert await found(collection, f"word{number - 1}") == []
            assert await collection.delete(["one"]) == 1
            assert await found(collection, "word29") == []

    async def test_filters_hold_for_hits(self) -> None:
        async with self.holding([]) as collection:
            await collection.upsert(
                [
                    Record(
                        key=f"n{number:02}",
                        texts={"body": "word"},
                        fields={"likes": number, "author": f"a{number % 3}"},
                    )
                    for number in range(30)
                ]
            )
            where = And((Range("likes", 10, 20), Not(Equal("author", "a0"))))
            expected = [f"n{number}" for number in range(10, 21) if number % 3]
            assert await found(collection, "word", where) == expected
            assert await found(collection, "word", Range("author", "a1", "a2", include_high=False), 3) == [
                "n01",
                "n04",
                "n07",
            ]


# A text, and what it must be found by, written otherwise: waves, quotes, dashes, dots, what nobody sees.
SPELT = [
    ("営業 9時〜17時 です", "9時～17時"),
    ("受付 10日～12日", "10日〜12日"),
    ("It’s the owner‘s kettle", "it's the owner's"),
    ("call “Marlow” today", '"marlow"'),
    ("the Wi‑Fi of room 3", "wi-fi of"),
    ("pages 10–20 of it", "10−20"),
    ("電話は090ー1234ー5678", "090-1234-5678"),
    ("サ−バ－の設定", "サーバーの"),
    ("ﾃﾞｰﾀとコ‐ヒ‐", "データとコーヒー"),
    ("ジョン・ドウ", "ジョン･ドウ"),
    ("葛\U000e0100城の駅で", "葛城の駅"),
    ("辻本さんの店", "辻\U000e0101本さん"),
    ("❤\ufe0f ありがとう", "❤ あり"),
    ("dis\u00adcov\u200ber\ufeffy ends", "discovery ends"),
    ("\u202bتجربة\u202c ok", "تجربة ok"),
    ("らーめんの味", "ら−めん"),
    ("👨‍👩‍👧 family", "👨‍👩‍👧 fam"),
    ("京\u2060都と奈\u200d良", "京都と奈良"),
]


class SubstringContract(EngineContract):
    """Filters by what a text contains."""

    async def test_marks_that_look_alike_are_one_and_unseen_ones_do_not_count(self) -> None:
        async with self.empty() as collection:
            await collection.upsert(bodies([text for text, _ in SPELT]))
            for number, (text, needle) in enumerate(SPELT):
                for part in (text, needle, needle[1:]):
                    page = await collection.select(Contains(part))
                    assert f"k{number:03}" in [stored.record.key for stored in page.records], part
            rest = await collection.select(Not(Contains("9時～17時")))
            assert len(rest.records) == len(SPELT) - 1
            assert await collection.count(Contains("デタ")) == 0
            assert await collection.count(Contains("090 1234")) == 0

    @pytest.mark.parametrize(
        ("needle", "keys"),
        [
            ("京都", ["k000", "k001"]),
            ("京", ["k000", "k001"]),
            ("都の", ["k000"]),
            ("かな", ["k002"]),
            ("カナ", ["k003"]),
            ("o w", ["k004"]),
            ("_", ["k005"]),
            ("ＡＤ_ｆ", ["k005"]),
            ("😀", ["k006"]),
            (" ", ["k004"]),
            ("x" * 70, ["k007"]),
            ("absent", []),
        ],
    )
    async def test_texts_are_found_by_what_they_hold(self, needle: str, keys: list[str]) -> None:
        texts = ["東京都の春", "京都へ", "かな", "カナ", "Hello World", "read_file", "😀", "x" * 80, "x" * 69]
        async with self.empty() as collection:
            await collection.upsert(bodies(texts))
            page = await collection.select(Contains(needle))
            assert [stored.record.key for stored in page.records] == keys
            assert await collection.count(Contains(needle, ("title",))) == 0
