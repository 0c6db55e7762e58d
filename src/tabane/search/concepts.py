"""Concepts of a query: its words, with synonyms and translations of the glossary.

Each concept is one word of the query, one Japanese headword, or a known phrase. Its variants are the word
itself with weight 1, and synonyms and translations of the glossary with lower weights. A text has the
score of the best variant of each concept, so that synonyms never outweigh the word itself.

The glossary: synonyms and translations of English and Japanese words, for search without a model. The
glossary is a file with one concept per line: English words, a tab, Japanese headwords. All words of a
line are synonyms or translations of each other. The first English word is the nearest. The words of an
English phrase are joined by ``_``. Japanese verbs are listed by the stems that occur in texts
(読む 読み 読ん). A headword that is a single kanji counts only if no other kanji is next to it.

A line ``weather forecast < sunny umbrella <TAB> 傘`` lists kinds: each word after ``<`` leads to the words
before it, and to no others. So does ``pull_request = pr``, whose words are short for those before ``=``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from tabane.search.analysis import FUNCTION_WORDS, bigrams, cjk_runs, is_cjk, stem, tokens

# Similarity of the words of a line: to and from the first word, and between the others. A Japanese headword
# has no evidence but its translations, so the first translation counts as much as the word itself.
_FROM_FIRST = 0.55
_TO_FIRST = 0.5
_BETWEEN = 0.35
_FROM_SHORT = 0.9
_FIRST_TRANSLATION = 1.0
_TRANSLATION = 0.6

LONGEST_HEADWORD = 12
_KINDS = "<"
_SHORT = "="


class Glossary:
    """Finds concepts by any of their words. It takes about 1 MB, and the first search makes it."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._concepts: list[str] = []
        # An int for the many words of one concept, a tuple for the rest: half the memory of lists.
        self._by_word: dict[str, int | tuple[int, ...]] = {}
        for line in lines:
            if line.strip() and not line.startswith("#"):
                english, _, japanese = line.rstrip("\n").partition("\t")
                stems = [term(word) for word in english.split()]
                headwords = ["".join(cjk_runs(word)) for word in japanese.split()]
                number = len(self._concepts)
                self._concepts.append(" ".join(stems) + "\t" + " ".join(headwords))
                general = _general(stems)
                specific = stems[len(general) + 1 :] if len(general) < len(stems) else stems
                for word in dict.fromkeys(specific + headwords):
                    numbers = self._by_word.get(word)
                    if numbers is None:
                        self._by_word[word] = number
                    else:
                        self._by_word[word] = (
                            *(numbers if isinstance(numbers, tuple) else (numbers,)),
                            number,
                        )

    def __contains__(self, word: str) -> bool:
        return word in self._by_word

    def synonyms(self, word: str) -> dict[str, float]:
        """Return the synonyms of an English term, with weights below 1. Terms are results of :func:`term`."""
        weights: dict[str, float] = {}
        for english, _ in self._concepts_of(word):
            for other, weight in _similar_words(english, word):
                if other != word and weight > weights.get(other, 0.0):
                    weights[other] = weight
        return weights

    def translations(self, headword: str) -> dict[str, float]:
        """Return English terms for a Japanese headword, with weights up to 1."""
        weights: dict[str, float] = {}
        for english, _ in self._concepts_of(headword):
            for place, other in enumerate(_general(english)):
                weight = _TRANSLATION if place else _FIRST_TRANSLATION
                if weight > weights.get(other, 0.0):
                    weights[other] = weight
        return weights

    def headwords(self, word: str) -> list[str]:
        """Return Japanese headwords for an English term, each once."""
        heads = (
            head
            for english, japanese in self._concepts_of(word)
            if len(_general(english)) == len(english)
            for head in japanese
        )
        return list(dict.fromkeys(heads))

    def segments(self, run: str) -> list[tuple[int, int]]:
        """Return the headwords in a run of Japanese as (start, end), the longest first from the left."""
        spans: list[tuple[int, int]] = []
        at = 0
        while at < len(run):
            end = self._longest(run, at, spans[-1][1] if spans else 0)
            if end:
                spans.append((at, end))
            at = end or at + 1
        return spans

    def _longest(self, run: str, at: int, last: int) -> int:
        for end in range(min(len(run), at + LONGEST_HEADWORD), at, -1):
            if run[at:end] in self._by_word and _stands_alone(run, at, end, last):
                return end
        return 0

    def _concepts_of(self, word: str) -> Iterator[tuple[list[str], list[str]]]:
        numbers = self._by_word.get(word, ())
        for number in numbers if isinstance(numbers, tuple) else (numbers,):
            english, _, japanese = self._concepts[number].partition("\t")
            yield english.split(), japanese.split()


@lru_cache(maxsize=1)
def glossary() -> Glossary:
    """Return the glossary of Tabane, which the first call reads."""
    path = os.path.join(os.path.dirname(__file__), "glossary.tsv")
    with open(path, encoding="utf-8") as lines:
        return Glossary(lines)


def term(word: str) -> str:
    """Return the term for an English word, or for several joined by ``_``: their stems, joined by ``_``."""
    return "_".join([stem(part) for part in word.split("_")]) if "_" in word else stem(word)


def _similar_words(english: list[str], word: str) -> Iterator[tuple[str, float]]:
    general = _general(english)
    if len(general) < len(english):
        weight = _TO_FIRST if _KINDS in english else _FROM_SHORT
        yield from ((each, weight) for each in general)
        return
    for place, other in enumerate(english):
        yield other, _FROM_FIRST if english[0] == word else _BETWEEN if place else _TO_FIRST


def _general(english: list[str]) -> list[str]:
    """Return the words before ``<`` or ``=``, or all."""
    return next((english[:at] for at, word in enumerate(english) if word in (_KINDS, _SHORT)), english)


def _stands_alone(run: str, at: int, end: int, last: int) -> bool:
    """Return whether a short headword is a word there, and not a part of a longer one.

    ログ in ブログ is not a word, unless another headword ends right before it (``last``).
    """
    if end - at == 1:
        return not (at and _is_kanji(run[at - 1])) and not (end < len(run) and _is_kanji(run[end]))
    if end - at <= 3 and _is_katakana(run[at]) and at and at != last:
        return not _is_katakana(run[at - 1])
    return True


def _is_kanji(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff"


def _is_katakana(character: str) -> bool:
    return "ァ" <= character <= "ー"


_PAIRS = """
予预 気气 図图 検检 発发 時时 間间 電电 車车 語语 話话 読读 書书 録录 報报 運运 転转 飛飞 機机 鉄铁 線线
経经 済济 財财 貨货 買买 売卖 価价 値值 資资 産产 業业 務务 営营 計计 統统 績绩 給给 銀银 預预 貯贮
費费 額额 購购 販贩 員员 団团 議议 論论 評评 審审 査查 調调 設设 備备 環环 変变 換换 編编 輯辑 訂订
訳译 説说 記记 誌志 詩诗 詞词 詳详 細细 題题 問问 質质 関关 連连 係系 結结 続续 継继 終终 開开 閉闭
門门 閲阅 聞闻 聴听 響响 楽乐 劇剧 絵绘 視视 覧览 観观 覚觉 習习 験验 試试 実实 証证 認认 権权 許许
識识 別别 県县 園园 場场 島岛 東东 岡冈 広广 庁厅 戸户 対对 応应 択择 選选 挙举 際际 険险 陽阳 陰阴
陸陆 階阶 層层 軽轻 測测 風风 雲云 災灾 鶏鸡 魚鱼 麺面 飯饭 飲饮 館馆 飾饰 養养 薬药 療疗 診诊 歯齿
頭头 顔颜 脳脑 臓脏 腸肠 圧压 縮缩 張张 強强 弾弹 戦战 闘斗 競竞 馬马 鳥鸟 亀龟 竜龙 種种 類类 頁页
順顺 項项 領领 願愿 顧顾 顕显 個个 倉仓 傷伤 働动 動动 勝胜 効效 労劳 勧劝 協协 単单 厳严 収收 処处
総总 絡络 網网 練练 縁缘 織织 緑绿 紅红 純纯 紙纸 級级 約约 納纳 組组 絶绝 綿绵 維维 緯纬 縦纵 繊纤
纏缠 罰罚 聖圣 職职 脈脉 膚肤 興兴 舎舍 艦舰 芸艺 荘庄 華华 薦荐 蔵藏 衛卫 補补 製制 複复 規规 親亲
訓训 託托 訪访 訴诉 詐诈 詰诘 該该 誠诚 誤误 課课 談谈 請请 諸诸 謝谢 講讲 護护 譲让 豊丰 負负 貢贡
責责 貧贫 貫贯 貴贵 貸贷 賀贺 賃赁 賛赞 賞赏 賢贤 贈赠 跡迹 躍跃 軌轨 軍军 軒轩 軟软 輝辉 輩辈 輪轮
輸输 辺边 達达 遅迟 適适 遠远 還还 郵邮 郷乡 鋭锐 鋼钢 鎖锁 鏡镜 鐘钟 鑑鉴 長长 閣阁 隊队 隠隐 雑杂
離离 難难 霊灵 韓韩 頂顶 須须 頼赖 頻频 駆驱 騒骚 騰腾 驚惊 髪发 鮮鲜 鳴鸣 黒黑 黙默 為为 無无 焼烧
煙烟 熱热 犠牺 猟猎 獣兽 現现 異异 畳叠 疎疏 礎础 確确 禍祸 稲稻 穀谷 穏稳 積积 窓窗 窮穷 筆笔 節节
範范 築筑 簡简 籠笼 粋粹 糧粮 紀纪 紛纷 従从 徳德 徴征 恵惠 悪恶 慣惯 憲宪 懐怀 戯戏 拠据 拡扩 掃扫
採采 挿插 揚扬 揮挥 損损 摂摄 撃击 擁拥 敵敌 暦历 曇昙 栄荣 桜樱 梱捆 棟栋 極极 構构 様样 標标 樹树
橋桥 歓欢 歩步 歴历 歳岁 殺杀 毎每 決决 沢泽 況况 浄净 浜滨 涙泪 渇渴 渓溪 減减 湯汤 満满 準准 滅灭
漁渔 漢汉 潔洁 濃浓 瀬濑
"""

_SIMPLIFIED = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()})


def simplified(text: str) -> str:
    """Return Japanese text in simplified Chinese characters, as far as they differ."""
    return text.translate(_SIMPLIFIED)


MOST_CONCEPTS = 40
MOST_VARIANTS = 12  # of a language
MOST_CHINESE = 8  # each is read from the index, also if no tool has it

_HEADWORD = 0.8  # a Japanese headword for an English word
_WRITTEN = 0.9  # the same headword in Chinese characters
_KINDRED = 0.5  # a Japanese headword for another of the same concept
_LOOSE = 0.5  # a bigram that belongs to no headword
_ACTION = 0.8  # a word for an action on anything, beside words for the thing
_ASKING = 0.6  # a word of asking, in a whole sentence
_INSIDE = 0.5  # a word of a known phrase, beside the phrase
_MISSPELLED = 0.6  # the word that a misspelled one may be
_SPELLED = 3  # letters of a word that may be misspelled
_MOST_SPELLED = 4  # words that are looked up as misspelled
_ARTICLES = frozenset(("a", "an", "the"))
_SENTENCE = 6  # so many words of content make a question a sentence

# Words of requests without content, beside those of grammar.
_EMPTY_REQUESTS = """
want wanted need like help tell give own m s t re ve d ll able hello hi hey thanks thank know got possible
looking interested anyone something someone anything
"""
# Words of requests. They name tools too ("show", "find"), so they count less only in a whole sentence.
_ASKING_WORDS = """
show display see view find search look get provide list use make create set specific particular certain
different various information detail offer include available suggest recommend best good great easy easily
new currently current way thing time assistance access kindly many several comprehensive
"""
# Words for actions on anything: in "create a pull request", they say nothing about pull requests.
_ACTIONS = """
create make add insert new update change edit modify delete remove open close run execute send write read save
start stop call put take turn do post submit set get fetch list show find search view display check manage use
perform apply return give generate build show display look provide offer suggest include specific particular
certain different various several everything anything
"""
_MORE_ACTIONS = """
play pause schedule book merge rename move translate convert draw remind email message order switch lock
unlock download upload
"""
_JAPANESE_ACTIONS = """
作る 作成 作り 追加 更新 変更 編集 削除 開く 開き 閉じ 実行 送る 送信 送り
書く 書き 読む 読み 保存 開始 停止 一覧 取得 検索
確認 登録 投稿 する
"""
_JAPANESE_ASKING = "教え 表示 見る 見せ 見たい 知り 調べ 使っ 使い 使う お願い 欲しい 方法 探し 探す"

ACTIONS = frozenset([*_ACTIONS.split(), *_MORE_ACTIONS.split()])
"""English words with which a request to do something begins."""

_EMPTY = frozenset(map(stem, [*FUNCTION_WORDS, *_EMPTY_REQUESTS.split()]))
_GENERAL = frozenset([*map(stem, _ACTIONS.split()), *_JAPANESE_ACTIONS.split(), *_JAPANESE_ASKING.split()])
_SOFT = frozenset([*map(stem, _ASKING_WORDS.split()), *_JAPANESE_ASKING.split()])


class Variant(Struct, frozen=True):
    """Tokens that express the concept, and their weight. ``strict``: a text must have all of them."""

    tokens: tuple[str, ...]
    weight: float
    strict: bool = True

    @property
    def general(self) -> bool:
        """Return whether most tools match it: a word of requests, or for an action on anything."""
        return len(self.tokens) == 1 and self.tokens[0] in _GENERAL


class Concept(Struct, frozen=True):
    """One concept of a query. The first variant is the word of the query itself."""

    weight: float
    variants: tuple[Variant, ...]

    @property
    def general(self) -> bool:
        """Return whether most tools match it: a word of requests, or for an action on anything."""
        first, *others = self.variants
        verbal = len(others) > 0 and all(other.general for other in others)
        return self.weight < _LOOSE or first.general or verbal


NearWords = Callable[[str], Sequence[str]]
"""Word → the words of a collection that it may be a misspelling of; none if the collection has the word."""


def concepts(
    question: str, glossary: Glossary, *, japanese: bool = True, near: NearWords | None = None
) -> list[Concept]:
    """Return the concepts of a query, at most 40, each word once.

    If ``japanese`` is False, Japanese variants of English words are left out, for a collection without
    Japanese. ``near`` is asked about the first words that the glossary does not know.
    """
    concepts_of_query = list(_japanese_concepts(question, glossary, japanese))
    words = [token for token in tokens(question) if not is_cjk(token) and token not in _ARTICLES]
    content = [word for word in dict.fromkeys(words) if word not in _EMPTY]
    if not content and not concepts_of_query:
        content = list(dict.fromkeys(words))
    pairs = ["_".join(words[at : at + 2]) for at in range(len(words) - 1)]
    triples = ["_".join(words[at : at + 3]) for at in range(len(words) - 2)]
    phrases = [phrase for phrase in dict.fromkeys(pairs + triples) if phrase in glossary]
    begin = "_".join(words[next((at for at, word in enumerate(words) if word not in _EMPTY), 0) :][:2])
    # "open issue" asks for a new one at the beginning of a request only, not in "show me open issues".
    phrases = [
        phrase for phrase in phrases if phrase == begin or not _GENERAL.issuperset(glossary.synonyms(phrase))
    ]
    inside = {word for phrase in phrases for word in phrase.split("_")}
    sentence = len(content) >= _SENTENCE
    unknown = [word for word in content if word not in glossary and len(word) >= _SPELLED]
    spelled = {word: near(word) for word in unknown[:_MOST_SPELLED]} if near else {}
    for word in content:
        weight = _ASKING if sentence and word in _SOFT else 1.0
        weight *= _INSIDE if word in inside else 1.0
        concept = _english_concept(word, glossary, weight, japanese)
        meant = tuple(Variant((other,), _MISSPELLED) for other in spelled.get(word, ()))
        concepts_of_query.append(structs.replace(concept, variants=concept.variants + meant))
    concepts_of_query.extend(_english_concept(phrase, glossary, 1.0, japanese) for phrase in phrases)
    actions = [concept.general for concept in concepts_of_query]
    if not all(actions):
        both = zip(concepts_of_query, actions, strict=True)
        concepts_of_query = [
            structs.replace(concept, weight=concept.weight * _ACTION) if action else concept
            for concept, action in both
        ]
    return concepts_of_query[:MOST_CONCEPTS]


def _english_concept(word: str, glossary: Glossary, weight: float, japanese: bool) -> Concept:
    variants = [Variant(tuple(word.split("_")), 1.0)]
    variants.extend(_english_variants(glossary.synonyms(word)))
    if japanese:
        variants.extend(_japanese_variants(glossary.headwords(word), _HEADWORD))
    return Concept(weight, tuple(variants))


def _japanese_variants(headwords: list[str], weight: float) -> list[Variant]:
    # A single kanji is a stem. With the next character it is another headword.
    words = [headword for headword in headwords if len(headword) > 1]
    pairs = (tuple(bigrams(headword)) for headword in words)
    variants = [Variant(pair, weight) for pair in pairs if pair][:MOST_VARIANTS]
    return variants + _chinese_variants(words, weight)


def _chinese_variants(headwords: Iterable[str], weight: float) -> list[Variant]:
    """Return Japanese headwords as a text in simplified Chinese writes them, where that differs."""
    written = [(headword, simplified(headword)) for headword in headwords]
    pairs = (tuple(bigrams(other)) for headword, other in written if other != headword)
    return [Variant(pair, weight) for pair in pairs if pair][:MOST_CHINESE]


def _japanese_concepts(question: str, glossary: Glossary, japanese: bool) -> Iterator[Concept]:
    seen: set[str] = set()
    for run in cjk_runs(question):
        last = 0
        for start, end in glossary.segments(run):
            yield from _unknown_pairs(run[last:start], seen)
            headword, last = run[start:end], end
            if headword not in seen:
                seen.add(headword)
                variants = [Variant(tuple(bigrams(headword)) or (headword,), 1.0, strict=False)]
                variants.extend(_english_variants(glossary.translations(headword)))
                if japanese:
                    others = [other for other in glossary.headwords(headword) if other != headword]
                    variants.extend(_chinese_variants([headword], _WRITTEN))
                    variants.extend(_japanese_variants(others, _KINDRED))
                weight = _ASKING / 2 if headword in _SOFT else 1.0
                yield Concept(weight, tuple(variants))
        yield from _unknown_pairs(run[last:], seen)


def _unknown_pairs(piece: str, seen: set[str]) -> Iterator[Concept]:
    for pair in bigrams(piece) if piece else ():
        if pair not in seen:
            seen.add(pair)
            yield Concept(_LOOSE, (Variant((pair,), 1.0),))


def _english_variants(weights: dict[str, float]) -> list[Variant]:
    ranked = sorted(weights.items(), key=lambda item: -item[1])[:MOST_VARIANTS]
    return [Variant(tuple(word.split("_")), weight) for word, weight in ranked]
