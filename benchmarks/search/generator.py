"""Records to measure with: Japanese and English text with the word frequencies of real text, from a seed.

The words are made here. Their frequencies are Zipf and Mandelbrot's, 1 / (rank + q): the commonest words
are particles and articles, and a word that anybody would search for is in some records out of many. The
same seed gives the same records, on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

SEED = 20261122
DAY = 86_400
FIRST_DAY = 1_700_000_000
DAYS = 1_000
USERS = 100  # each has 1 % of the records
_CHARACTERS = 120  # of a text on average
_SHORTEST, _LONGEST = 24, 600
_WORDS = 30_000  # of each language
_FLAT = 10  # q: the commonest word that says something stands for 1.3 % of all words
_CODES = 0.02  # of the words of a text are numbers and names of versions
_BORROWED = 0.05  # of the words of a Japanese text are Latin

_ARTICLES = """
the of and to in is that for it was on are as with they be at one have this from by had but some what
there we can out other were all your when up use word how said an each which their time if will way
"""
_ONSETS = "b c d f g h j k l m n p r s t v w br ch cl cr dr fl gr pl pr sh sp st str th tr"
_VOWELS = "a e i o u ai ea ee io ou"
_CODAS = "- - - n r s t l m nd st ck"  # - is none
_PARTICLES = "の に は を が と で も から まで へ や より など"
_ENDINGS = "した。 している。 です。 ます。 という。 された。 だった。 である。"
_OKURIGANA = "る く す む う い しい われる ける める"
_SUFFIXES = "者 性 的 化 会 学 業 部 員 所 都 市"
_KANA = """
ア イ ウ エ オ カ キ ク ケ コ サ シ ス セ ソ タ チ ツ テ ト ナ ニ ネ ノ ハ ヒ フ ヘ ホ マ ミ ム メ モ
ラ リ ル レ ロ ワ ガ グ ゴ ジ ズ ダ デ ド バ ビ ブ ベ ボ パ ピ プ ポ ー ー ッ ン ン シャ ショ チャ ジョ
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record to be found. ``date`` is seconds since 1970."""

    key: str
    text: str
    language: str
    date: int
    user: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of an engine: words, or else a substring; and what the records are limited to."""

    words: tuple[str, ...] = ()
    needle: str = ""
    since: int | None = None
    until: int | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words in order of frequency, with what :func:`random.choices` wants of it."""

    words: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, words: Sequence[str], flat: float) -> Vocabulary:
        return cls(tuple(words), tuple(accumulate(1 / (rank + flat) for rank in range(len(words)))))

    def draw(self, source: random.Random, count: int) -> list[str]:
        return source.choices(self.words, cum_weights=self.weights, k=count)


class Generator:
    """Makes records and questions about them."""

    def __init__(self, seed: int = SEED) -> None:
        self._source = random.Random(seed)
        self._japanese = Vocabulary.of(_distinct(_japanese_words(self._source)), _FLAT)
        self._english = Vocabulary.of(_distinct(_english_words(self._source)), _FLAT)
        self._articles = Vocabulary.of(_ARTICLES.split(), 2.7)
        self._endings = _ENDINGS.split()
        self._particles = Vocabulary.of(_PARTICLES.split(), 1)

    def entries(self, count: int) -> Iterator[Entry]:
        """Records, half of them Japanese, in no order of dates."""
        for number in range(count):
            language = self._source.choice(("ja", "en"))
            date = FIRST_DAY + self._source.randrange(DAYS * DAY)
            user = f"user{self._source.randrange(USERS):02}"
            yield Entry(f"k{number:07}", self.text(language), language, date, user)

    def text(self, language: str, characters: int = _CHARACTERS) -> str:
        """A text of so many characters on average."""
        shortest, longest = (characters * bound // _CHARACTERS for bound in (_SHORTEST, _LONGEST))
        length = min(longest, max(shortest, int(self._source.gammavariate(2.4, characters / 2.4))))
        return self._written_japanese(length) if language == "ja" else self._written_english(length)

    def words(self, language: str) -> tuple[str, ...]:
        """The words that say something, the commonest first."""
        return (self._japanese if language == "ja" else self._english).words

    # Questions

    def queries(self, entries: Sequence[Entry], language: str, count: int) -> list[Asked]:
        """One to three words that stand together in some record, as one asks for what one remembers."""
        known = frozenset(self.words(language))
        chosen = [entry for entry in entries if entry.language == language]
        asked: dict[Asked, None] = {}
        while len(asked) < count:
            words = self._remembered(self._source.choice(chosen).text, known)
            take = min(len(words), 1 + len(asked) % 3)
            if take:
                asked[Asked(words=tuple(self._source.sample(words, take)))] = None
        return list(asked)

    def needles(self, entries: Sequence[Entry], language: str, lengths: range, count: int) -> list[Asked]:
        """Pieces of records of so many characters, without white space."""
        chosen = [entry.text for entry in entries if entry.language == language]
        asked: dict[Asked, None] = {}
        for _ in range(count * 50):
            text, length = self._source.choice(chosen), self._source.choice(lengths)
            start = self._source.randrange(max(1, len(text) - length))
            piece = text[start : start + length]
            if len(piece) == length and piece.isalpha():
                asked[Asked(needle=piece)] = None
            if len(asked) == count:
                break
        return list(asked)

    def days(self, share: float) -> tuple[int, int]:
        """A range of dates that so large a share of the records lies in."""
        length = int(DAYS * DAY * share)
        since = FIRST_DAY + self._source.randrange(DAYS * DAY - length)
        return since, since + length

    def user(self) -> str:
        return f"user{self._source.randrange(USERS):02}"

    def _remembered(self, text: str, known: frozenset[str]) -> list[str]:
        if text.isascii():
            return [word for word in text.lower().replace(".", "").split() if word in known]
        pieces = [text[start : start + length] for length in (2, 3, 4, 5) for start in range(len(text))]
        return [piece for piece in pieces if piece in known]

    # Text

    def _written_english(self, length: int) -> str:
        source, sentences, characters = self._source, list[str](), 0
        while characters < length:
            count = source.randint(5, 14)
            content = iter(self._english.draw(source, count))
            articles = iter(self._articles.draw(source, count))
            words = [next(articles if source.random() < 0.42 else content) for _ in range(count)]
            words = [self._code() if source.random() < _CODES else word for word in words]
            sentences.append(" ".join(words).capitalize() + ".")
            characters += len(sentences[-1]) + 1
        return " ".join(sentences)[:length].rstrip()

    def _written_japanese(self, length: int) -> str:
        source, parts, characters = self._source, list[str](), 0
        while characters < length:
            count = source.randint(3, 7)
            for word, particle in zip(
                self._japanese.draw(source, count), self._particles.draw(source, count), strict=True
            ):
                parts += (self._borrowed(word), particle)
            parts[-1] = source.choice(self._endings)
            characters = sum(map(len, parts))
        return "".join(parts)[:length]

    def _borrowed(self, word: str) -> str:
        chance = self._source.random()
        if chance < _CODES:
            return self._code()
        if chance < _CODES + _BORROWED:
            return self._english.draw(self._source, 1)[0].capitalize()
        return word

    def _code(self) -> str:
        source = self._source
        if source.random() < 0.5:
            return str(source.randrange(1, 3000))
        return f"v{source.randrange(20)}.{source.randrange(30)}"


def _english_words(source: random.Random) -> Iterator[str]:
    onsets, vowels, codas = _ONSETS.split(), _VOWELS.split(), _CODAS.split()
    while True:
        syllables = source.choice((1, 2, 2, 2, 3, 3, 4))
        word = "".join(source.choice(onsets) + source.choice(vowels) for _ in range(syllables))
        yield word + source.choice(codas).strip("-")


def _japanese_words(source: random.Random) -> Iterator[str]:
    """Words of two kanji, and what is made of them; words of one with an ending; words of katakana."""
    kanji = list(_kanji())
    source.shuffle(kanji)
    common = Vocabulary.of(kanji, 60)
    kana, endings, suffixes = _KANA.split(), _OKURIGANA.split(), _SUFFIXES.split()
    two: list[str] = []
    makers: list[Callable[[], str]] = [
        lambda: "".join(source.choice(kana) for _ in range(source.randint(2, 5))).lstrip("ーッン"),
        lambda: "".join(common.draw(source, 1)) + source.choice(endings),
        lambda: source.choice(two) + source.choice(two),
        lambda: source.choice(two) + source.choice(suffixes),
    ]
    while True:
        two.append("".join(common.draw(source, 2)))
        yield two[-1]
        if source.random() < 0.6:
            yield source.choices(makers, (5, 2, 2, 1))[0]()


def _kanji() -> Iterator[str]:
    """The kanji of everyday use: level 1 of JIS X 0208, rows 16 to 47."""
    for row in range(16, 48):
        for cell in range(1, 95):
            try:
                yield bytes((0xA0 + row, 0xA0 + cell)).decode("euc_jp")
            except UnicodeDecodeError:
                continue


def _distinct(words: Iterator[str]) -> list[str]:
    articles = frozenset(_ARTICLES.split())
    found: dict[str, None] = {}
    while len(found) < _WORDS:
        if len(word := next(words)) > 1 and word not in articles:
            found[word] = None
    return list(found)
