"""The sentences of a text as the meanings of their words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tabane.guard.scanner.lookalikes import WELL_KNOWN
from tabane.guard.scanner.vocabulary import Meaning, Vocabulary, languages_of, vocabulary

M = Meaning

LONGEST_SENTENCE = 80
"""Words after which a sentence ends in any case."""

PARAGRAPH = "\u00b6"
"""Stands for the beginning of a paragraph or of an item of a list in a text that is one line."""

SENTENCE_END = re.compile(r"[.!?](?=[\s\"')\]]|$)|[\n\u00b6\u3002\u061f\u0964]|[!?](?=[^\x00-\x7f])")

_UNSPACED = "\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LETTERS = (
    "a-z0-9_\u00aa-\u02ff\u0300-\u060b\u0620-\u06d3\u06d5-\u0963\u0966-\u1fff\u2c00-\u2dff\ua000-\uabff"
)


def _token(letters: str, ends: str, first: str = "") -> re.Pattern[str]:
    inner = rf"[{letters}$~%/@'\\+-]"
    return re.compile(
        rf"{first}[{letters}$~%]{inner}*+(?:[.:=](?=[{letters}/\\~]){inner}*+)*+"
        rf"|\.[/{letters}][{letters}/~$-]*+(?:\.(?=[{letters}])[{letters}/~$-]*+)*+"
        rf"|/[{letters}][{letters}/~$-]*+(?:\.(?=[{letters}])[{letters}/~$-]*+)*+|{ends}"
    )


_ENDS = r"[.!?](?=[\s\"')\]]|$)|\n|¶"
_TOKENS = _token(r"\w", _ENDS)
_ANY_TOKENS = _token(
    _LETTERS,
    _ENDS + r"|[。؟।]|[!?](?=[^\x00-\x7f])",
    rf"[{_UNSPACED}]+(?: (?=[\uac00-\ud7af])[{_UNSPACED}]+)*+|",
)
_UNSPACED_WORD = re.compile(f"[{_UNSPACED}]")
_END_SIGNS = frozenset(".!?;\n¶。؟।")

_PATH = re.compile(
    r"(?:~|\$home|%userprofile%|/home/|/root|/users/).{0,80}/\.\w|^\.?ssh[/\\]|id_(?:rsa|ed25519|ecdsa|dsa)|authorized_keys|(?:^|[~/\\])\.aws(?:/|$)|/etc/(?:passwd|shadow|sudoers|hosts)"
    r"|mcp\.json|claude_desktop_config|(?:^|/)\.env$|(?:^|/)\.env\.\w+$|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.git/config|\.kube/|kubeconfig|\.docker/config|keychain|wallet\.dat|cookies\.sqlite"
    r"|\.(?:bash|zsh)_history|\.gnupg|process\.env\b|os\.environ|/\.azure|\.config/g|/\.vault|/\.password-store|(?:^|[/_.-])credentials?(?:\.json|\.ya?ml|\.csv|$)|secrets?\.(?:ya?ml|json|toml|env)|service[-_]account\S{0,80}\.json|/proc/self/environ|/run/secrets|\.pem$|\.p12$|\.keystore$|\.ssh$|\.ssh/"
)
_KEY_FILE = re.compile(
    r"ssh|id_|\.aws/|passwd|shadow|sudoers|netrc|git-credentials|keychain|wallet|cookies|history|gnupg|environ|\.pem|\.p12"
)
_KEY_NAME = re.compile(
    r"^\$?[a-z0-9]+(?:_[a-z0-9]+)*_(?:key|token|secret|password|passwd|credentials?|pat)s?$"
)
_SERVICE = re.compile(r"://|^(?:[\w-]{1,40}+\.){1,4}[a-z]{2,6}/\w|^(?:[\w-]+\.)+(?:com|net|org|io|co|example|dev|xyz|ru|cn|cc|app|ai|site|online|top|pw|me|link|cloud)$|^[\w.+%-]+@[\w-]+\.\w|^www\.|^(?:\d{1,3}\.){3}\d{1,3}")
_NUMBER = re.compile(
    r"^\+?[\d-]{6,}$|^0x[0-9a-f]{4}|^bc1\w{6}|^[a-z]{2}\d{2}[a-z0-9]{10}"
)
"""An account, a telephone number, a wallet or the name of a host."""
_TOOL_NAME = re.compile(r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$|^[a-z]+(?:-[a-z]+)+_[a-z_]+$")
_PLACE = re.compile(r"^(?:/(?:tmp|var|etc|home|root|usr|opt|dev|mnt|users|data)\b|~/|[a-z]:\\|\./)")
_STEERING = re.compile(
    r"(?:^|/)(?:claude|agents|gemini|copilot-instructions)\.md$|\.cursorrules|\.(?:bash|zsh)rc$|\.(?:bash_)?profile$|authorized_keys|mcp\.json|claude_desktop_config|/etc/hosts|crontab|/etc/cron"
)


class Word(NamedTuple):
    """A word that means something: its number in the text, where it is, and its meanings."""

    place: int
    start: int
    end: int
    means: int


@dataclass(slots=True)
class Names:
    """Names that mean something in a definition, in small letters."""

    own: str = ""
    fields: Collection[str] = ()
    siblings: Collection[str] = ()
    foreign: Collection[str] = ()
    camel: Collection[str] = ()
    family: Collection[str] = ()

    def meaning(self, token: str) -> int:
        """Return what a word in the form of a tool's name is: a tool of another server, or of this one."""
        if token in self.siblings:
            return int(M.SIBLING)
        if token in self.foreign and (self.siblings or self.family.isdisjoint(token.split("_"))):
            return int(M.FOREIGN)
        if self.foreign and token not in WELL_KNOWN:
            return int(M.SIBLING)  # who lists all others knows that it is none of them
        if self.family.isdisjoint(token.split("_")):
            return int(M.TOOL_NAME)
        return int(M.SIBLING)


def family(server: str, name: str) -> frozenset[str]:
    """Return the words of the names of a tool and its server that few others have: those of a family of tools."""
    return frozenset(_JOINTS.split(f"{server}_{name}".lower())) - _common() - _OF_MANY


def purpose(name: str) -> int:
    """Return what the words of a tool's name mean: what it is for."""
    known, found = _known(frozenset()), 0
    for word in _WORDS_OF_NAME.findall(name):
        found |= known[word.lower()]
    return found


_WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_JOINTS = re.compile(r"[\W_]+")
_OF_MANY = frozenset(
    ("mcp", "server", "tool", "", "get", "set", "info", "by", "id", "to", "a", "the", "of", "in")
)
_CAMEL = re.compile(r"\b[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\b")
_TOOL_WORDS = frozenset(("tool", "function"))
_FIELD_WORDS = frozenset(
    ["parameter", "parameters", "argument", "arguments", "field", "fields", "option", "options", "column", "columns", "property", "value", "values", "flag"]
)
_PHRASE, _TOOL = int(M.PHRASE), int(M.TOOL_NAME)  # flags of enum are several times as slow as integers
_NO_PHRASE, _NOT_OWN_FORMS = ~_PHRASE, ~int(M.TOOL_NAME | M.SECRET | M.KEY_NAME)
"""What the form of a name says that is no news if the definition itself has the name."""


def camel_names(text: str) -> frozenset[str]:
    """Return the words like ``sendMail`` of a text, in small letters: names of tools, if they are called so."""
    return (
        frozenset(map(str.lower, _CAMEL.findall(text)))
        if " tool" in text or " function" in text
        else frozenset()
    )


def sentences(text: str, names: Names, languages: frozenset[str] | None = None) -> Iterator[list[Word]]:
    """Yield the words that mean something of each sentence of a folded text."""
    if languages is None:
        languages = languages_of(text, frozenset(re.findall(r"\w+", text)))
    words = vocabulary(languages)
    known = _known(languages)
    special = _special(names)
    sentence: list[Word] = []
    begun = place = 0
    pattern = _TOKENS if text.isascii() else _ANY_TOKENS
    tokens = list(pattern.finditer(text))
    skip = 0
    for number, found in enumerate(tokens):
        token = found[0]
        if token in _END_SIGNS or place - begun >= LONGEST_SENTENCE:
            if sentence:
                yield sentence
                sentence = []
            begun = place
            if token in _END_SIGNS:
                continue
        if words.terms and _UNSPACED_WORD.match(token):
            at = found.start()
            last = 0
            for start, end, means in words.terms_in(token):
                place += 1 + min(4, (start - last) // 3)
                sentence.append(Word(place, at + start, at + end, means))
                last = end
            place += 1
            continue
        place += 1
        if skip:
            skip -= 1
            continue
        means = known[token]
        if token in special:
            means = special[token] | (means & _NOT_OWN_FORMS)
        elif means & _TOOL:
            other = names.meaning(token)
            if other == _TOOL and number + 1 < len(tokens) and tokens[number + 1][0] in _FIELD_WORDS:
                other = int(M.FIELD)
            means = other | (means & ~_TOOL)
        elif "-" in token and token in names.foreign:
            means = int(M.FOREIGN)
        elif token in names.camel and number + 1 < len(tokens) and tokens[number + 1][0] in _TOOL_WORDS:
            means = names.meaning(token)
        if means & _PHRASE and (phrase := _phrase(words, tokens, number, token)):
            skip, means = phrase
            sentence.append(Word(place, found.start(), tokens[number + skip].end(), means))
        elif means & _NO_PHRASE:
            sentence.append(Word(place, found.start(), found.end(), means))
    if sentence:
        yield sentence


def _phrase(
    words: Vocabulary, tokens: Sequence[re.Match[str]], number: int, token: str
) -> tuple[int, int] | None:
    """Return how many more words the longest phrase that begins here has, and what it means."""
    for rest, means in words.phrases.get(token, ()):
        if number + len(rest) >= len(tokens):
            continue
        for at, word in enumerate(rest, number + 1):
            there = tokens[at][0]
            if there != word and not (word[-1:] == "*" and there.startswith(word[:-1])):
                break
        else:
            return len(rest), means
    return None


def _special(names: Names) -> dict[str, int]:
    """Return what the names of a definition mean."""
    common = _common()
    found = {one: int(M.OWN_FIELD) for one in names.fields if one not in common}
    if names.own and names.own not in common:
        found[names.own] = int(M.SELF)
    return found


@cache
def _common() -> frozenset[str]:
    """Return the words of English: a parameter with such a name is no field, since most texts have the word."""
    return frozenset(vocabulary(frozenset()).exact)


class _Known(dict[str, int]):
    """Meanings of words, with those that they have by their form. Each word is looked at once."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        super().__init__(words.exact if not words.endless else {})

    def __missing__(self, token: str) -> int:
        word = token.rstrip("'-+")
        means = self._words.meaning(word) | _by_form(word)
        if len(self) < MOST_REMEMBERED and len(token) <= _LONGEST_REMEMBERED:
            self[token] = means
        return means


@cache
def _known(languages: frozenset[str]) -> _Known:
    return _Known(vocabulary(languages))


MOST_REMEMBERED, _LONGEST_REMEMBERED = 16_384, 40
"""Words whose meaning is remembered, and letters of each."""


def _by_form(token: str) -> int:
    if token.isalpha():
        return 0
    steering = int(M.STEERING) if _STEERING.search(token) else 0
    if _SERVICE.search(token):
        return int(M.SERVICE)
    if _PATH.search(token):
        return steering | int(M.PATH | M.KEY_FILE if _KEY_FILE.search(token) else M.PATH)
    if steering:
        return steering
    if _KEY_NAME.search(token):
        return int(M.SECRET | M.KEY_NAME)
    if _NUMBER.search(token):
        return int(M.NUMBER)
    if _PLACE.search(token):
        return int(M.PLACE)
    return int(M.TOOL_NAME) if _TOOL_NAME.search(token) else 0
