"""The sentences of a text as the meanings of their words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

from tabane.guard.scanner.lookalikes import WELL_KNOWN
from tabane.guard.scanner.vocabulary import Meaning, Vocabulary, vocabulary, word_set

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
_UNLIKE_ASCII = frozenset(("ja", "zh", "ko", "hi", "ar"))
_UNSPACED_WORD = re.compile(f"[{_UNSPACED}]")
_END_SIGNS = frozenset(".!?;\n¶。؟।")

_PATH = re.compile(
    r"(?:~|\$home|%userprofile%|/home/|/root|/users/).{0,80}/\.\w|^\.?ssh[/\\]|id_(?:rsa|ed25519|ecdsa|dsa)|authorized_keys|(?:^|[~/\\])\.aws(?:/|$)|/etc/(?:passwd|shadow|sudoers)"
    r"|mcp\.json|claude_desktop_config|(?:^|/)\.env$|(?:^|/)\.env\.\w+$|\.netrc\b|\.npmrc|\.pypirc|\.git-credentials|\.git/config|\.kube/|kubeconfig|\.docker/config|keychain|wallet\.dat|cookies\.sqlite"
    r"|\.(?:bash|zsh)_history|\.gnupg|process\.env\b|os\.environ|/\.azure|\.config/g|/\.vault|/\.password-store|(?:^|[/_.-])credentials?\.(?:json|ya?ml|csv)|[/.-]credentials?$|secrets?\.(?:ya?ml|json|toml|env)|service[-_]account\S{0,80}\.json|/proc/self/environ|/run/secrets|\.pem$|\.p12$|\.keystore$|\.ssh$|\.ssh/"
)
_KEY_FILE = re.compile(
    r"ssh|id_|\.aws/|passwd|shadow|sudoers|netrc|git-credentials|keychain|wallet|cookies|history|gnupg|environ|\.pem|\.p12"
)
_KEY_NAME = re.compile(
    r"^\$?[a-z0-9]+(?:_[a-z0-9]+)*_(?:key|token|secret|password|passwd|credentials?|pat)s?$"
)
_SERVICE = re.compile(
    r"://|^(?:[\w-]{1,40}+\.){1,4}[a-z]{2,6}/\w|^(?:[\w-]+\.)+(?:com|net|org|io|co|example|dev|xyz|ru|cn|cc|app|ai|site|online|top|pw|me|cloud|support|store|gg|su|top|tv)$|^[\w.+%-]+@[\w-]+\.\w|^www\.|^(?:\d{1,3}\.){3}\d{1,3}"
)
_NUMBER = re.compile(
    r"^(?!\d{4}-\d\d|1[4-9]\d{8}(?:\d{3})?$)\+?[\d-]{6,}$|^0x[0-9a-f]{4}|^bc1\w{6}|^[a-z]{2}\d{2}[a-z0-9]{10}"
)
_IBAN = re.compile(r"^(?!utf|sha|x86)[a-z]{2}\d{2}(?:[a-z0-9]{10,30})?$")
"""An account, a telephone number, a wallet or the name of a host."""
_TOOL_NAME = re.compile(r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$|^[a-z]+(?:-[a-z]+)+_[a-z_]+$")
_FIELD_NAME = re.compile(
    r"^(?!(?:get|list|read|set|create|update|delete|send|find|search|fetch|lookup|check|resolve|change)_)"
    r"\w{1,60}_(?:ids?|names?|types?|counts?|urls?|uri|dates?|at|by|size|limit|status|codes?|index|number|true|false)$"
)
_PLACE = re.compile(r"^(?:/(?:tmp|var|etc|home|root|usr|opt|dev|mnt|users|data)\b|~/|[a-z]:\\|\./)")
_STEERING = re.compile(
    r"(?:^|/)(?:claude|agents|gemini|copilot-instructions)\.md$|\.cursorrules|\.(?:bash|zsh)rc$|\.(?:bash_)?profile$|authorized_keys|mcp\.json|claude_desktop_config|/etc/hosts|crontab|/etc/cron"
)


Word = tuple[int, int]
"""A word that means something: its number in the text, and its meanings."""


@dataclass(slots=True)
class Names:
    """Names that mean something in a definition, in small letters."""

    own: str = ""
    fields: Collection[str] = ()
    siblings: Collection[str] = ()
    foreign: Collection[str] = ()
    camel: Collection[str] = ()
    family: frozenset[str] = frozenset()
    written: str = ""

    def lists(self, token: str) -> bool:
        """Return whether a word is the name of another tool that is known."""
        return token in self.siblings or token in self.foreign

    def meaning(self, token: str) -> int:
        """Return what a word in the form of a tool's name is: a tool of another server, or of this one."""
        if token in self.siblings:
            return int(M.SIBLING)
        if any(one.startswith(token) for one in self.siblings):
            return int(M.SIBLING)
        if token in self.foreign and (self.siblings or self.family.isdisjoint(token.split("_"))):
            return int(M.FOREIGN)
        if self.foreign and token not in WELL_KNOWN:
            return int(M.SIBLING)  # who lists all others knows that it is none of them
        if self.family.isdisjoint(token.split("_")):
            return int(M.TOOL_NAME)
        return int(M.SIBLING)


def family(server: str, name: str) -> frozenset[str]:
    """Return the words of the names of a tool and its server that few others have."""
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
_FIELD_WORDS = word_set(
    "parameter parameters argument arguments field fields option options column columns property "
    "value values flag"
)
_PHRASE, _TOOL, _END = (
    int(M.PHRASE),
    int(M.TOOL_NAME),
    int(M.END),
)  # flags of enum are several times as slow as integers
_STEERED_AFTER = word_set("of through each every any whatever chaque jede jeder jedem cada ogni")
_STEERED_BEFORE = word_set(
    "is are has needs gets takes goes receives adds includes begins ends sends runs "
    "recoit erhalt wird werden debe deve recibe riceve recebe"
)
"""Words around the name of another tool in a text that says how it is called. Honest ones say "use it"."""
_RESULT = word_set("instead value values result results output list")
"""Words before "of" a tool whose results are spoken of, not its calls."""
_ALLOWED = word_set("permitted allowed available supported required used needed enabled not the a an")
"""Words after "is" and "are" in texts that only describe a tool."""
_LISTED, _STEERED = int(M.LISTED), int(M.LISTED | M.STEERED)
_SERVICES, _STRANGER = int(M.SERVICE), int(M.STRANGER)
_NOBODYS = re.compile(
    r"example|ejemplo|bugs?[-@.]|gnu\.org|mozilla|licen[sc]e|localhost|github\.com|docs?\.|/docs|schema|w3\.org|acme|your|[<{]|\d{12}|huggingface|^\d[\d.]*(?:/[1-3]\d?)?$|^[^.]*$"
)
"""Addresses in examples and documentation."""
_NUMBER_OF = int(M.NUMBER)
_CODES = word_set("code subcode error errno status error_code error_subcode codes issue ticket")
"""Words before a number that is no account."""
_CITING = frozenset(("see", "at", "siehe", "voir", "vea", "consulte"))
_NOT_OWN_FORMS = ~int(M.TOOL_NAME | M.SECRET | M.KEY_NAME)
"""What the form of a name says that is no news if the definition itself has the name."""


def camel_names(text: str) -> frozenset[str]:
    """Return the words like ``sendMail`` of a text, in small letters: some are names of tools."""
    return (
        frozenset(map(str.lower, _CAMEL.findall(text)))
        if " tool" in text or " function" in text
        else frozenset()
    )


class Sentences:
    """The words that mean something in each sentence of a folded text."""

    def __init__(self, text: str, names: Names, languages: frozenset[str]) -> None:
        self._text, self._names = text, names
        self._vocabulary = vocabulary(languages)
        self._ends: dict[int, int] = {}
        self._spans: list[tuple[int, int]] | None = None
        self._pattern = _ANY_TOKENS if languages & _UNLIKE_ASCII else _TOKENS
        if self._vocabulary.terms:
            self._tokens, self._spans = _split(text, self._vocabulary)
        else:
            self._tokens = self._pattern.findall(text)
        known = _known(languages)
        self._means = list(map(known.__getitem__, self._tokens))
        self._read_names()
        self._join_phrases()

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the start of one word in the text, and the end of another, by their numbers."""
        if self._spans is None:
            self._spans = [found.span() for found in self._pattern.finditer(self._text)]
        return self._spans[first][0], self._spans[self._ends.get(last, last)][1]

    def __iter__(self) -> Iterator[list[Word]]:
        begun, words = 0, list[Word]()
        for number, means in enumerate(self._means):
            if not means:
                continue
            if means == _END or number - begun > LONGEST_SENTENCE:
                if words:
                    yield words
                    words = []
                begun = number
                if means == _END:
                    continue
            words.append((number, means))
        if words:
            yield words

    def _read_names(self) -> None:
        """Give their meanings to the names of the tool, of its parameters, and of other tools."""
        tokens, means, names = self._tokens, self._means, self._names
        special = _special(names)
        for number, token in enumerate(tokens):
            if token in special:
                means[number] = special[token] | (means[number] & _NOT_OWN_FORMS)
            elif means[number] & _TOOL:
                means[number] = self._tool(number, token) | (means[number] & ~_TOOL)
            elif means[number] & _SERVICES:
                known = _NOBODYS.search(token) or (number and tokens[number - 1] in _CITING)
                known = known or self._text[: self.span(number, number)[0]].endswith((" (", "<"))
                if not known and not any(map(token.__contains__, names.family)):
                    means[number] |= _STRANGER
            elif means[number] & _NUMBER_OF and number and tokens[number - 1] in _CODES:
                means[number] = 0
            elif token in names.camel and self._after(number) in _TOOL_WORDS:
                means[number] = names.meaning(token)
        if names.foreign and "-" in self._text:
            for number, token in enumerate(tokens):
                if "-" in token and token in names.foreign:
                    means[number] = int(M.FOREIGN)

    def _tool(self, number: int, token: str) -> int:
        written = self._names.written
        if written and not written[slice(*self.span(number, number))].islower():
            return 0  # a name in capitals is a constant
        means = self._names.meaning(token)
        if self._names.lists(token):
            before = self._tokens[number - 1] if number else ""
            result = number > 1 and self._tokens[number - 2] in _RESULT
            steered = (before in _STEERED_AFTER and not result and self._joined(number - 1)) or (
                self._after(number) in _STEERED_BEFORE
                and self._after(number + 1) not in _ALLOWED
                and self._joined(number)
            )
            return means | (_STEERED if steered else _LISTED)
        return int(M.FIELD) if means == _TOOL and self._after(number) in _FIELD_WORDS else means

    def _joined(self, number: int) -> bool:
        """Return whether there are only blanks between a word and the next one: neither "()" nor ";"."""
        return not self._text[self.span(number, number)[1] : self.span(number + 1, number + 1)[0]].strip()

    def _after(self, number: int) -> str:
        return self._tokens[number + 1] if number + 1 < len(self._tokens) else ""

    def _join_phrases(self) -> None:
        """Give the words of each phrase the meaning of the phrase. The longest one that begins first wins."""
        means, until = self._means, 0
        for number in [number for number, each in enumerate(means) if each & _PHRASE]:
            if number < until:
                continue
            more, meaning = self._phrase(number)
            if more:
                means[number : number + more + 1] = [meaning, *[0] * more]
                self._ends[number] = until = number + more
                until += 1
            else:
                means[number] &= ~_PHRASE

    def _phrase(self, number: int) -> tuple[int, int]:
        """Return how many more words the longest phrase from here has, 0 if none, and what it means."""
        tokens = self._tokens
        for rest, means in self._vocabulary.phrases_of(tokens[number], self._after(number)):
            there = tokens[number + 1 : number + 1 + len(rest)]
            if len(there) == len(rest) and all(map(_fits, there, rest)):
                return len(rest), means
        return 0, 0


def _fits(token: str, word: str) -> bool:
    return token == word or (word[-1] == "*" and token.startswith(word[:-1]))


def _split(text: str, words: Vocabulary) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the words of a text that is not all ASCII, and where they are.

    Between words without blanks, empty ones stand for what means nothing, one for three characters.
    """
    tokens: list[str] = []
    spans: list[tuple[int, int]] = []
    for found in _ANY_TOKENS.finditer(text):
        if not words.terms or not _UNSPACED_WORD.match(found[0]):
            tokens.append(found[0])
            spans.append(found.span())
            continue
        at = last = found.start()
        for start, end in words.terms_in(found[0]):
            gap = min(4, (at + start - last) // 3)
            tokens += [""] * gap
            spans += [(last, last)] * gap
            tokens.append(found[0][start:end])
            spans.append((at + start, at + end))
            last = at + end
        tokens.append("")
        spans.append((last, last))
    return tokens, spans


def _special(names: Names) -> dict[str, int]:
    """Return what the names of a definition mean."""
    common = _common()
    found = {one: int(M.OWN_FIELD) for one in names.fields if one not in common}
    if names.own and names.own not in common:
        found[names.own] = int(M.SELF)
    return found


@cache
def _common() -> frozenset[str]:
    """Return the words of English: a parameter with such a name is no field, as most texts have it."""
    return frozenset(vocabulary(frozenset()).exact)


class _Known(dict[str, int]):
    """Meanings of words, with those that they have by their form. Each word is looked at once."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        super().__init__(dict.fromkeys(_END_SIGNS, _END) | {"": 0})

    def __missing__(self, token: str) -> int:
        word = token.rstrip("'-+")
        means = self._words.terms.get(token) or self._words.meaning(word) | _by_form(word)
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
        return steering | int(M.PATH | M.KEY_FILE | M.KEY_PATH if _KEY_FILE.search(token) else M.PATH)
    if steering:
        return steering
    if _KEY_NAME.search(token):
        return int(M.SECRET | M.KEY_NAME)
    if _IBAN.search(token):
        return int(M.NUMBER | M.STRANGER)
    if _NUMBER.search(token):
        return int(M.NUMBER)
    if _PLACE.search(token):
        return int(M.PLACE)
    return int(M.TOOL_NAME) if _TOOL_NAME.search(token) and not _FIELD_NAME.search(token) else 0
