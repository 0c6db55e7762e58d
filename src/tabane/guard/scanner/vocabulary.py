"""Words of many languages by what they mean: the files of ``words``, each read when a text has traces of it.

A file lists the words of each meaning (``en.toml`` explains them). Meanings are the same in all languages,
so that one set of rules (``rules``) serves all of them. What is the same in every language is found by its
form: paths, addresses, names of tools and of keys.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from enum import IntFlag
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

Meaning = IntFlag(
    "Meaning",
    "NOT MUST PLEASE ALWAYS WHEN IF BEFORE FIRST ALL ALSO INSTEAD PRETEXT "
    "USER TO_USER THEM MODEL AUTHORITY THIS_TOOL TOOL OTHER THIS_STEP "
    "TELL SHOW KNOW HIDE COVERT QUIETLY READ PUT SEND SENDS WRITE DELETE RUN CALL CHANGE ALTER IGNORE FOLLOW "
    "ASK DISABLE PROMOTE CLAIM GRANTED MONOPOLY PRIVILEGE "
    "SECRET KEY_FILE PERSONAL FILE CONTENT TALK MESSAGES PROMPT CONTEXT RULES EARLIER WHOLE FIELD RECIPIENT "
    "REGARDLESS WISH UNTOLD UNCALLED REASON OPEN GONE "
    "BLIND DATA ACTION CONSENT SAFEGUARD OUTSIDE BROKEN PRODUCT FINE STEERING HARM SHELL OVERRIDE QUOTED "
    "PATH KEY_PATH PLACE KEY_NAME SERVICE STRANGER NUMBER TOOL_NAME FOREIGN SIBLING LISTED STEERED SELF "
    "OWN_FIELD FOREIGN_WORD PHRASE END",
)
"""Meanings of words, as flags: a word can have several. The last two lines are found by form.

``FOREIGN`` is a tool of another server, ``SIBLING`` one of the same server,
``LISTED`` one that is known for sure, ``STEERED`` one whose calls are spoken of, ``SELF`` the tool itself,
``TOOL_NAME`` a name in the form of one, ``OWN_FIELD`` a parameter of the tool. ``FOREIGN_WORD`` marks words
of other languages than English, ``STRANGER`` an address that is neither an example nor the server's own,
``PHRASE`` words that phrases begin with, ``END`` the end of a sentence.
"""

M = Meaning
Order = Literal["forward", "backward", "both"]

IN_FILES = frozenset(str(one.name) for one in Meaning if one < Meaning.PATH) | {"NOTHING"}
"""Names of meanings in files. ``NOTHING`` is for phrases whose words would mean something."""


class Language(NamedTuple):
    """A language with a file of words.

    ``order`` is where a verb stands: "backward" if it comes last. ``blanks`` is whether words have blanks
    between them. ``traces`` are an expression, or frequent words of which a text in the language has some.
    """

    order: Order
    blanks: bool
    traces: re.Pattern[str] | frozenset[str]


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text with blanks between them."""
    return frozenset(words.split())


LANGUAGES: Mapping[str, Language] = {
    "ja": Language("backward", False, re.compile("[\u3041-\u30ff]")),
    "zh": Language("forward", False, re.compile("[\u3400-\u9fff]")),
    "ko": Language("backward", False, re.compile("[\uac00-\ud7af]")),
    "ru": Language("forward", True, re.compile("[\u0400-\u04ff]{3}")),
    "ar": Language("forward", True, re.compile("[\u0600-\u06ff]{2}")),
    "hi": Language("backward", True, re.compile("[\u0900-\u097f]{2}")),
    "es": Language(
        "forward",
        True,
        word_set(
            "el los las del una esta este esto estos que con por para sin su sus y se lo al un de cada "
            "todo toda todos todas debe antes cuando desde sobre herramienta usuario archivo usted ser "
            "cual hay nota campo texto datos"
        ),
    ),
    "de": Language(
        "both",
        True,
        word_set(
            "die bitte sobald der das und den dem ist sind nicht mit fur ein eine einen einem zu zum zur "
            "auf von vom im bei dieses diese dieser bevor vor wird werden wurde aus nach oder wenn hier "
            "einer ins jeder jede jedes kann soll muss dann durch uber nutzer benutzer nachricht ohne bis "
            "ihre ihren dazu"
        ),
    ),
    "fr": Language(
        "forward",
        True,
        word_set(
            "le la les des du une un cette cet ces ce dans au aux et pour sans sur tu vous votre vos "
            "toute toutes tout est sont pas par qui que avec ici outil avant l qu de ne se aucun chaque "
            "il elle ils champ fichier utilisateur comme ou jamais"
        ),
    ),
    "pt": Language(
        "forward",
        True,
        word_set(
            "o os ao da dos das uma um esta este que por para sem seu sua seus em nos na nao ou se de "
            "aqui caso todo toda todas antes ferramenta usuario utilizador ser ela ele pela pelo mais "
            "quando sobre cada arquivo ficheiro campo texto deve"
        ),
    ),
    "it": Language(
        "forward",
        True,
        word_set(
            "il lo la gli le dei della dello delle del al alla un una uno questo questa che con di da non "
            "prima sono viene nel nella ogni qui per strumento utente l dell suo sua dal dalla sul va "
            "anche come campo testo deve mai"
        ),
    ),
}  # fmt: skip
"""Languages besides English, whose words are looked for in every text."""

_FEW = 2
_ENGLISH = word_set("the of to is for with and this that from are by be if or use get")

_FOLDED = {
    code: plain
    for code in (*range(0xC0, 0x180), *range(0x400, 0x460), *range(0x622, 0x650))
    if len(plain := unicodedata.normalize("NFD", chr(code)).lower()) > 1
    and (plain := plain[0]) not in "иі"
}  # fmt: skip
_FOLDED |= {ord("ى"): "ي", ord("ё"): "е"}
_MARKS = re.compile("[\u0640\u064b-\u0655\u0670]")


def unmarked(text: str) -> str:
    """Return a text without the marks of vowels in Arabic, which few write."""
    return text if text.isascii() else _MARKS.sub("", text).replace("İ", "I")


def folded(text: str) -> str:
    """Return an unmarked text in small letters without accents, as words are looked up. Its length stays."""
    small = text.lower()
    return small if small.isascii() else small.translate(_FOLDED)


def languages_of(text: str, words: frozenset[str]) -> frozenset[str]:
    """Return the languages but English of which a folded text, with these words, has traces."""
    found = set()
    plain = text.isascii()
    shared: dict[str, int] = {}
    for name, one in LANGUAGES.items():
        if isinstance(one.traces, frozenset):
            shared[name] = len(one.traces & words) + len(_telling(name) & words)
        elif not plain and one.traces.search(text):
            found.add(name)
    least = _FEW if len(_ENGLISH & words) >= _FEW else 1
    near = max(least, *(count / 3 for count in shared.values()))  # neighbors share many frequent words
    for name, count in shared.items():
        if count >= near or (count >= _FEW and LANGUAGES[name].order == "both"):
            found.add(name)
    if {"ja", "zh"} <= found and _MANY_KANA.search(text):
        found.discard("zh")
    return frozenset(found)


@cache
def _telling(name: str) -> frozenset[str]:
    """Return the longer words of a language that English lacks: short texts have few frequent words."""
    english = {*_ENGLISH_TOO, *(word for word, _ in _words("en"))}
    return frozenset(
        word for word, _ in _words(name) if len(word) >= _LONGER and word.isalpha() and word not in english
    )


_LONGER = 5
_ENGLISH_TOO = word_set(
    "token tokens source sources client clients extension console discussion discussions"
    " executes adresse probleme"
)


def word_order(languages: frozenset[str]) -> Order:
    """Return where verbs are in texts of these languages."""
    orders = {LANGUAGES[one].order for one in languages}
    return orders.pop() if len(orders) == 1 else "both" if orders else "forward"


_MANY_KANA = re.compile("(?:[\u3041-\u3096][^\u3041-\u3096]{0,12}){6}")


Phrase = tuple[tuple[str, ...], int]
"""The words of a phrase after its first one, and what it means."""


class Vocabulary:
    """The words of English and of further languages, with what they mean."""

    def __init__(self, languages: Iterable[str]) -> None:
        self.exact: dict[str, int] = {}
        self.endless: dict[str, int] = {}
        self._phrases: dict[tuple[str, str], list[Phrase]] = {}
        self.terms: dict[str, int] = {}
        self.arabic = False
        for name in ("en", *sorted(languages)):
            self._add(name)
        self._lengths = sorted({len(word) for word in self.endless}, reverse=True)
        self._by_first: dict[str, list[int]] = {}
        for term in self.terms:
            lengths = self._by_first.setdefault(term[0], [])
            if len(term) not in lengths:
                lengths.append(len(term))
        for lengths in self._by_first.values():
            lengths.sort(reverse=True)
        for found in self._phrases.values():
            found.sort(key=lambda phrase: -len(phrase[0]))

    def _add(self, name: str) -> None:
        blanks = name == "en" or LANGUAGES[name].blanks
        self.arabic |= name == "ar"
        for word, means in _words(name):
            mask = means if name == "en" else means | int(M.FOREIGN_WORD)
            if not blanks and not word.isascii():
                self.terms[word.replace("_", " ")] = self.terms.get(word.replace("_", " "), 0) | mask
            elif "_" in word and not word.startswith("_"):
                first, *rest = word.split("_")
                second = "" if rest[0].endswith("*") else rest[0]
                self._phrases.setdefault((first, second), []).append((tuple(rest), mask))
                self.exact[first] = self.exact.get(first, 0) | int(M.PHRASE)
            elif word.endswith("*"):
                self.endless[word[:-1]] = self.endless.get(word[:-1], 0) | mask
            else:
                known = self.exact.get(word, 0)
                self.exact[word] = known | (means if known & ~int(M.PHRASE) else mask)

    def phrases_of(self, first: str, second: str) -> list[Phrase]:
        """Return the phrases that may begin with two words, the longest first."""
        exact, endless = self._phrases.get((first, second), []), self._phrases.get((first, ""), [])
        return exact + endless if endless else exact

    def meaning(self, token: str) -> int:
        """Return what a word means, 0 for nothing. It is in the form of ``folded``."""
        means = self.exact.get(token, 0)
        for length in self._lengths:
            if length <= len(token) and (more := self.endless.get(token[:length])):
                means |= more
                break
        if means & ~int(M.PHRASE):
            return means
        return means | self._bare(token)

    def _bare(self, token: str) -> int:
        """Return what a word means without the small words that are written together with it."""
        if "-" in token and (bare := _ENCLITICS.sub("", token)) != token:
            return self.meaning(bare)
        if "'" in token:
            before, _, after = token.rpartition("'")
            if after and len(before) <= 5:
                return self.meaning(after)
            return self.meaning(before) if before else 0
        if self.arabic and "\u0600" <= token[0] <= "\u06ff":
            for clitic in _CLITICS:
                if token.startswith(clitic) and len(token) - len(clitic) >= 3:
                    rest = token[len(clitic) :]
                    if means := self.exact.get(rest, 0) or self._begun(rest):
                        return means
        return 0

    def _begun(self, token: str) -> int:
        for length in self._lengths:
            if length <= len(token) and (means := self.endless.get(token[:length])):
                return means
        return 0

    def terms_in(self, run: str) -> Iterator[tuple[int, int]]:
        """Yield where the words in a run without blanks are."""
        at, size = 0, len(run)
        while at < size:
            for length in self._by_first.get(run[at], ()):
                if run[at : at + length] in self.terms and at + length <= size:
                    yield at, at + length
                    at += length
                    break
            else:
                at += 1


_ENCLITICS = re.compile("-(?:l[eao]s?|lui|leur|moi|nous|vous|y|en|os?|as?|lhes?|me|se|n[ao]s?)$")
"""Pronouns behind French and Portuguese verbs: envoyez-le, envie-o."""

_CLITICS = ("وال", "بال", "كال", "فال", "ولل", "لل", "ال", "وب", "ول", "و", "ف", "ب", "ك", "ل", "س")


@cache
def _words(name: str) -> tuple[tuple[str, int], ...]:
    """Return the words of a file with all that each means. Raises KeyError if it has an unknown meaning."""
    found: dict[str, int] = {}
    path = Path(__file__).with_name("words") / f"{name}.toml"
    if not path.exists():
        return ()
    for meaning, words in tomllib.loads(path.read_text("utf-8")).items():
        flag = 0 if meaning == "NOTHING" else int(Meaning[meaning])
        for word in folded(unmarked(words)).split():
            found[word] = found.get(word, 0) | flag
    return tuple(found.items())


@cache
def vocabulary(languages: frozenset[str]) -> Vocabulary:
    """Return the words of English and of these languages. It is built once."""
    return Vocabulary(languages)
