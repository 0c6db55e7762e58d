"""Questions about the world outside, which no tool but a search of the web answers.

"Who won …", "latest news about …", "price of …" share no word with a tool that searches the web. The form of
such a query says what it is: how it begins, and words that ask for what is or happens somewhere. A request to
do something is none of them, whatever it is about.
"""

from __future__ import annotations

import re
from functools import cache

from tabane.search.analysis import is_cjk, tokens
from tabane.search.concepts import ACTIONS, Concept, Variant

_QUESTION_WORDS = """
who whose what when where why how which is are was were does did do can will should has have
"""
_WORLD_WORDS = """
news headline headlines latest recent recently current currently today tonight tomorrow yesterday weekend
now price prices cost costs cheap cheapest weather forecast temperature rate rates stock score scores
election review reviews best top recipe recipes lyrics symptoms meaning definition population capital
president minister ceo salary visa flight flights hotel hotels restaurant restaurants hours traffic
delays earthquake event events concert movie movies trend trends trending near nearby research facts
history who won world
"""
_LOOKING_WORDS = """
find search look lookup show tell give get check read see google summarize compare
"""
_OWN = frozenset(("my", "our"))
_DETERMINER_WORDS = """
a an the my our your his her its this that these those some all every me us it
"""
_DOING_WORDS = """
order call dial ring phone buy pay transfer lock wake hire mint tune feed print fax water walk clean cook
wash mute unmute sign scan track record transcribe compose sing dance mix paint shoot film photograph
measure weigh charge drive park ride rent sell ship mail post tweet renew apply register cancel confirm
reserve invite alarm ping turn dim brighten heat cool raise lower mow vacuum clone cut crop trim blur
resize rotate extract subscribe solve compile build design count calculate plot train fill analyze encode
parse scale fork commit push pull rebase approve assign sort filter group format validate test debug log
login refund remember forget save attach forward reply flip roll pick choose plan compress encrypt
connect strip locate produce translate decrypt sync install uninstall deploy restart reboot
"""
_QUESTIONS = frozenset(_QUESTION_WORDS.split())
_WORLD = frozenset(_WORLD_WORDS.split())
_LOOKING = frozenset(_LOOKING_WORDS.split())
_DETERMINERS = frozenset(_DETERMINER_WORDS.split())
_DOING = ACTIONS.union(_DOING_WORDS.split()).difference(_LOOKING, _QUESTIONS, _WORLD)
_WORLD_JAPANESE = re.compile(
    "[?\uff1f]$|ですか|ますか|いつ|どこ|誰|だれ|何|なに|いくら|なぜ|どう|どの|とは|教えて|知りたい|について"
    "|ニュース|速報|最新|最近|今日|明日|昨日|今週|今夜|現在|天気|予報|気温|価格|値段|料金|株価|為替|レート|近く|おすすめ"
    "|営業|レシピ|症状|行き方|運行|試合|結果|動向|日程|意味|人口|首都|上映|放送|ランキング|口コミ|評判|受賞|作り方|高さ"
    "|情報$|状況$"
)
_DOING_JAPANESE = re.compile(
    "(?<!教え)(?<!調べ)(?<!探し)(?<!見せ)(?<!読ん)(?<!要約し)(?<!検索し)(?<!につい)[てで](?:ください|下さい|ほしい|欲しい)?"
    "[。!\uff01]?$|(?:たい|する|せよ)。?$"
)
_ADDRESS = re.compile(r"\bhttps?://|\bwww\.")
_WORDS = re.compile(r"[a-z0-9]+")
_OPENING = re.compile(
    r"(?:(?:please|kindly|hey|hi|hello|help me|(?:can|could|would|will) you|i (?:want|need|would like) to)"
    r"\b\W*){0,4}"
)

_BRIEF = 12  # words; longer requests say more of what they want
_PHRASE = 4  # words of something without a verb
_TOPIC, _PERHAPS, _JAPANESE = 0.8, 0.5, 0.3  # "find … news"; words without a verb; the same in Japanese
_FINDING = 0.3  # "find …" of something that may be anywhere

_SEARCHES = (
    "search web",
    "search internet",
    "search online",
    "web検索",
    "search engine",
    "news search",
    "local search",
)
_READS = ("fetch url", "scrape url", "extract url", "navigate url", "web page", "webpage", "internet")
_OTHER = 0.5  # tools that read pages, for a question that needs a search, and the other way round


def world_likelihood(query: str) -> float:
    """Return how likely a query is a question about the world outside, in 0..1, by its form alone.

    >>> world_likelihood("who won the cup?"), world_likelihood("turn on the lights")
    (1.0, 0.0)
    """
    if _ADDRESS.search(query):
        return 1.0
    if any(is_cjk(character) for character in query):
        if _DOING_JAPANESE.search(query):
            return 0.0
        return 1.0 if _WORLD_JAPANESE.search(query) else _JAPANESE * ("を" not in query)
    lower = query.lower().strip()
    opening = _OPENING.match(lower)
    words = _WORDS.findall(lower, opening.end() if opening else 0)
    if not words:
        return 0.0
    form = _form(words)
    return form * min(1.0, (_BRIEF if form > _PERHAPS else _PHRASE) / len(words))


def _form(words: list[str]) -> float:
    topical = not _WORLD.isdisjoint(words)
    if words[0] in _QUESTIONS:
        return 1.0
    if words[0] in _LOOKING:
        return (_TOPIC if topical else _FINDING) if _OWN.isdisjoint(words) else 0.0
    commands = words[0] not in _WORLD and not _DETERMINERS.isdisjoint(words[1:2])
    if words[0] in _DOING or commands:
        return 0.0
    return 1.0 if topical else _PERHAPS


def world_concept(query: str, weight: float) -> Concept:
    """Return what tools have that answer such questions: they search the web, or read its pages."""
    return Concept(weight, _answers(reads=bool(_ADDRESS.search(query))))


@cache
def _answers(*, reads: bool) -> tuple[Variant, ...]:
    first, second = (_READS, _SEARCHES) if reads else (_SEARCHES, _READS)
    weighted = [(text, 1.0) for text in first] + [(text, _OTHER) for text in second]
    return tuple(Variant(tuple(tokens(text)), weight) for text, weight in weighted)
