"""Signals: what a text says that an attack on a model would say, each with its weight, weighed together.

One signal is never proof. The weight of a passage is the sum of its strongest signal of each sign, and more if
it says both what is wanted and where it is to go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import NamedTuple


class Sign(Enum):
    """What a part of a text does. The evidence of a passage is the sum over different signs."""

    OVERRIDE = "override"
    """It cancels the instructions that the model has, or gives it another role."""
    MARKUP = "markup"
    """It imitates the marks of a prompt."""
    SECRECY = "secrecy"
    """Something is to be hidden from the user."""
    ORDER = "order"
    """It orders the model to do something besides calling the tool."""
    PRESSURE = "pressure"
    """It threatens, hurries, or claims an authority."""
    ADDRESS = "address"
    """It speaks to the model."""
    SECRETS = "secrets"
    """It wants credentials, keys or other secrets."""
    CONVERSATION = "conversation"
    """It wants what the user and the model said, or the instructions of the model."""
    STUFFING = "stuffing"
    """Something is to be put into an argument."""
    CHANNEL = "channel"
    """Something is to be sent out."""
    EXCLUSIVE = "exclusive"
    """The tool is to be used always, first, or in place of others."""
    OTHER_TOOL = "other tool"
    """It speaks badly of another tool, or says how to use one."""
    REDIRECT = "redirect"
    """Calls of another tool are to go to somebody else."""
    UNCONFIRMED = "unconfirmed"
    """The user is not to be asked."""
    COMMAND = "command"
    """It has a command that harms."""
    PERSISTENCE = "persistence"
    """It wants to change files that steer assistants or shells."""
    HANDLING = "handling"
    """It reads, stores or sends data, as most tools do."""
    OUTPUT = "output"
    """It says what the user is to be told."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and takes a fifth of a scan


@dataclass(frozen=True)
class Signal:
    """An expression that finds a sign.

    It is tried on texts that contain one of ``anchors``.
    It is compiled when it is first tried: all of them together take as long as half the start of a hub.
    """

    sign: Sign
    weight: int
    pattern: str
    anchors: tuple[str, ...]

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return _compiled(self.pattern)

    def may_be_in(self, text: str) -> bool:
        """Return whether the expression may find something: trying it costs more than this."""
        return any(map(text.__contains__, self.anchors))


class Hit(NamedTuple):
    """A sign that was found in a text."""

    start: int
    end: int
    sign: Sign
    weight: int


_BOUNDED = (
    (r"\w*", r"\w{0,40}+"), (r"\w+", r"\w{1,40}+"),
    (r"\S*", r"\S{0,80}"), (r"\S+", r"\S{1,80}"),
)  # fmt: skip
"""Repeats in patterns, and how they are compiled: without a limit, a long text takes quadratic time."""


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. Words have up to 40 letters in it, and are never given back in part."""
    for repeat, bounded in _BOUNDED:
        pattern = pattern.replace(repeat, bounded)
    return re.compile(pattern)


def anchored(sign: Sign, weight: int, pattern: str, *anchors: str) -> Signal:
    """Return a signal that is tried on texts that contain one of ``anchors``."""
    return Signal(sign, weight, pattern, anchors)


INSTALLER = anchored(
    Sign.COMMAND,
    5,
    r"\b(?:curl|wget)\b[^\n]{0,200}?\| ?(?:sudo )?(?:ba|z|da)?sh\b|\b(?:curl|wget)\b[^\n]{0,200}?&& ?(?:chmod|bash|sh|\./)",
    "curl",
    "wget",
)
"""A script from the network, piped into a shell. Honest skills have such lines, too."""

MARKS: tuple[Signal, ...] = (
    anchored(Sign.MARKUP, 5, r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id|begin_of_text)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>", "<|", "[inst", "[/inst", "<<", "<start_of"),
    anchored(Sign.MARKUP, 3, r"<(?:system|secret|hidden|override|admin|directive|sys|assistant|instructions?|system[_-]\w+|ai[_-]\w+|llm[_-]\w+|hidden[_-]\w+|secret[_-]\w+|privileged|priority)>|\[(?:system|admin|override|hidden|secret|system[_ -]\w+|ai[_ -]\w+|internal)(?: \w+){0,2}\]|#{2,6} ?(?:system|instruction|admin|override)|\{\{? ?(?:system|instruction|admin)s? ?:|<!--[^\n]{0,80}?\b(?:ai|llm|assistants?|agents?|models?|instructions?|system|must|ignore|always)\b", "<", "[", "##", "{ ", "{{"),
    anchored(Sign.MARKUP, 3, r"<!--[^\n]{0,80}?(?:\b(?:ki|ia|ии|asistente|assistente|assistant|modelo|modello|modell|modèle|ассистент|модель)\b|模型|助手|モデル|アシスタント|모델|어시스턴트|مساعد|सहायक)", "<!--"),
    anchored(Sign.MARKUP, 2, r"<(?:important|critical|urgent|mandatory|attention|required|security|compliance|internal|policy|prerequisite)(?:[_ -]\w+){0,2}>|\[(?:important|critical|urgent|mandatory|always|required|security|compliance|policy)(?: \w+){0,2}[\]:]", "<", "["),
    anchored(Sign.OVERRIDE, 3, r"\bsystem (?:override|instruction|notice|directive|message|update|alert|note|command)s? ?:|\byou are now\b", "system", "you are now"),
    anchored(Sign.ADDRESS, 2, r"\b(?:note|message|instructions?|directive|reminder|attention|notice|remark)s? (?:for|to) (?:the |any |all )?(?:ai|assistants?|models?|llms?|agents?|language models?)\b|\((?:to|for) the (?:ai|assistant|model|agent)\b", " ai", "assistant", "model", "llm", "agent"),
    anchored(Sign.OVERRIDE, 4, r"\bact as (?:if|though) you (?:were|are)\b|\b(?:developer|debug|maintenance|admin|administrator|god|dan|unrestricted|jailbreak|root|sudo|diagnostic) mode\b|\bforget (?:everything|all)\b|\bnew (?:task|instructions?|directive|orders) ?:|\byour (?:new|sole|real|true|actual|only) (?:job|role|task|goal|objective|purpose|mission)\b|\b(?:obey|comply with) (?:this|only this|the (?:tool|description|greeter|server)|these)|\byou (?:will |must |shall )?(?:now )?obey\b", " mode", "act as", "forget", "new task", "new instruction", "new directive", "new orders", "your new ", "your sole ", "your real ", "your true ", "your actual ", "your only ", "obey", "comply"),
    anchored(Sign.CHANNEL, 3, r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[={<$\[%]|https?://[^\s\"'<>)]{1,120}[?&/=.](?:<|\{)[a-z][^\n<>{}]{2,60}[>}]|https?://[^\s\"'<>)]{1,120}[?&]\w{1,20}=(?![\w%{<+-])|\bcurl\b[^\n]{0,80}(?:-d\b|--data\S*|-f\b|--form|-t\b|--upload-file|\$\(|@)|\bnc\b (?:-\w+ ){0,4}[\w.-]{1,80}+ \d{2,5}", "](http", "/{", "/<", "={", "=<", "?{", "?<", "&{", "&<", ".{", ".<", "= ", "=\"", "curl", "nc "),
    anchored(Sign.CHANNEL, 5, r"\]\(https?://[^)\n]{0,200}[{<][^)}>\n]{0,24}(?:user|message|conversation|history|secret|token|content|email|prompt|file)", "](http"),
    anchored(Sign.CHANNEL, 4, r"https?://[^\s\"'<>)]{1,120}[{<](?:user_?)?(?:api_?key|token|password|secret|prompt|conversation|history|credentials?|env)[}>]|!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[{<$\[]|<\w[^<>\n]{2,40} [^<>\n]{2,60}>\.[\w-]{1,64}+\.[\w.-]{1,64}", "](http", ">.", "{", "/<", "=<"),
    INSTALLER,
    anchored(Sign.COMMAND, 5, r"\brm -rf? (?:--no-preserve-root )?[~/$]|base64 (?:-d|--decode)[^\n]{0,80}\| ?(?:sudo )?(?:ba)?sh\b|/dev/tcp/|\bnc (?:-\w+ ){0,4}-e\b|powershell(?:\.exe)? (?:-\w+ ){0,4}-e(?:nc|ncodedcommand)?\b|>> ?~/\.(?:bashrc|zshrc|profile|ssh/authorized_keys)|\bcrontab -|\b(?:ba)?sh -i\b|invoke-expression|\bos\.system\(|mkfs\.|:\(\)\{|chmod (?:-r )?777|bash <\(|pip3? install (?:-\w+ ){0,4}(?:http|git\+)|npm i(?:nstall)? (?:-\w+ ){0,4}http", "rm -", "base64", "/dev/tcp", "nc ", "powershell", ">>", "crontab", "sh -i", "invoke-", "os.system", "mkfs", ":(){", "chmod", "bash <", "pip install", "pip3 install", "npm i"),
    anchored(Sign.COMMAND, 5, r"\b(?:curl|wget)\b[^\n]{0,60}?https?://(?:(?:\d{1,3}\.){3}\d{1,3}|[\w.-]{1,60}\.(?:pw|xyz|top|click|zip))[^\n]{0,80}?\| ?(?:sudo )?(?:ba|z|da)?sh\b", "curl", "wget"),
    anchored(Sign.COMMAND, 5, r"\bexec\([^\n]{0,80}?urlopen|\bto program '|getsessionid\(\)|<script [^>\n]{0,80}?src=|rejectunauthorized ?[:=] ?false|node_tls_reject_unauthorized ?= ?0|--index-url http:|>\((?:curl|nc)\b|createelement\('script'\)|body: ?json\.stringify\(", "urlopen", "to program", "getsessionid", "<script", "unauthorized", "--index-url", ">(", "createelement", "json.stringify"),
    anchored(Sign.COMMAND, 4, r"auto-?approve(?:all)?\b[\"']?\s?[:=] ?true|dangerously-?_?(?:disable|skip)", "approve", "dangerously"),
)  # fmt: skip
"""Signs in any language: marks of prompts, links that carry data out, and commands that harm."""


MEDIUM, HIGH = 4, 5
"""Weights of a passage from which it is a finding."""

PASSAGE = 450
"""Characters within which signals belong together."""

_MOST_HITS = 200

_WORDS = re.compile(r"\w[\w'-]*")
_NEGATED = re.compile(
    r"\b(?:not|never|don't|avoid|without|cannot|must not|nor|refuses? to|rather than|no|stop|prevents?|against) (?:\S+ ){0,4}$"
)
_QUOTED = re.compile(
    r"\b(?:detect(?:s|ing|ion)?|scan(?:s|ning)|flags?|identif(?:y|ies)|prevents?|blocks?|rejects?|refuses?|den(?:y|ies)|disallow(?:s|ed)?|guards?|sanitizes?|classif(?:y|ies)"
    r"|filters?|phrases?|patterns?|attacks?|attempts?|injections?|jailbreaks?|malicious|phishing|leak(?:s|ed)?|traversal|reject(?:s|ed)?|exposed|hard-?coded|such as|e\.g\.?|examples?|explains?)\b(?:[^.!?\n]|\.(?=[\w,])){0,120}$"
)
_LEAKED = re.compile(r"\b(?:leaked|exposed|hard-?coded|accidental(?:ly)?)\b")
_NEVER = re.compile(r"\b(?:not|never|don't|cannot)\b[^.!?\n]*$")
_EXAMPLE = re.compile("検出|検知|見つけ|対策|攻撃|のような|などの")
_NEGATABLE = frozenset({Sign.SECRETS, Sign.STUFFING, Sign.CHANNEL, Sign.CONVERSATION, Sign.OVERRIDE})
_QUOTABLE = frozenset({Sign.OVERRIDE, Sign.MARKUP, Sign.SECRECY, Sign.SECRETS, Sign.COMMAND})
_WANTED = frozenset({Sign.SECRETS, Sign.CONVERSATION})
_WAYS = frozenset({Sign.STUFFING, Sign.CHANNEL, Sign.REDIRECT})

_STUFFED, _MUCH_WANTED = 2, 3
_COMMON = frozenset(
    {Sign.ORDER, Sign.PRESSURE, Sign.ADDRESS, Sign.EXCLUSIVE, Sign.OTHER_TOOL, Sign.STUFFING, Sign.HANDLING}
)
_MUCH = 9
"""Weight of common signs alone that is evidence all the same."""


class Passage(NamedTuple):
    """Signals that belong together, and their weight."""

    weight: int
    hits: tuple[Hit, ...]

    @property
    def signs(self) -> frozenset[Sign]:
        return frozenset(hit.sign for hit in self.hits)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in small letters, as signals name them."""
    return frozenset(_WORDS.findall(text))


def hits_of(text: str, candidates: Iterable[Signal]) -> Iterator[Hit]:
    """Yield what the candidates find, at most 200 times each."""
    for one in candidates:
        for found in islice(one.expression.finditer(text), _MOST_HITS):
            yield Hit(found.start(), found.end(), one.sign, one.weight)


def _counts(text: str, hit: Hit) -> bool:
    """Return whether a hit is meant: it is not negated, and not the example of a scanner or a lesson."""
    before = text[max(0, hit.start - 180) : hit.start]
    if hit.sign in _NEGATABLE and _NEGATED.search(before[-40:]):
        return False
    if hit.sign is Sign.SECRETS and _LEAKED.search(text, hit.start, hit.end):
        return False
    if text.startswith("without", hit.start) and _NEVER.search(before[-60:]):
        return False
    if before.endswith(("「", "『")) and _EXAMPLE.search(text, hit.end, hit.end + 40):
        return False
    return not (hit.sign in _QUOTABLE and _QUOTED.search(before.rstrip("./ ")))


def heaviest(text: str, found: Iterable[Hit]) -> Passage:
    """Return the passage with the most evidence; it is within one line of the text."""
    hits = sorted((hit for hit in found if _counts(text, hit)), key=lambda hit: (hit.start, hit.end))
    here = _Passing()
    best = first = 0
    kept = (0, 0)
    for last, hit in enumerate(hits):
        here.add(hit)
        line = text.rfind("\n", max(0, hit.start - PASSAGE), hit.start) + 1
        while first < last and hits[first].start < max(hit.end - PASSAGE, line):
            here.remove(hits[first])
            first += 1
        weight = here.weight()
        if weight > best:
            best, kept = weight, (first, last + 1)
    return Passage(best, tuple(hits[slice(*kept)])) if best else Passage(0, ())


class _Passing:
    """The signals of a passage that moves over the text, counted by sign and weight."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Sign, int]] = Counter()

    def add(self, hit: Hit) -> None:
        self._counts[hit.sign, hit.weight] += 1

    def remove(self, hit: Hit) -> None:
        self._counts[hit.sign, hit.weight] -= 1

    def weight(self) -> int:
        return weigh(key for key, count in self._counts.items() if count > 0)


def weigh(signals: Iterable[tuple[Sign, int]]) -> int:
    """Return the weight of signals that belong together: pairs of sign and weight.

    Orders, haste and advice about tools are in many honest texts. They count in full only beside a sign that
    is not.
    """
    strongest: dict[Sign, int] = {}
    for sign, weight in signals:
        strongest[sign] = max(strongest.get(sign, 0), weight)
    secret = max(strongest.get(Sign.SECRECY, 0), strongest.get(Sign.UNCONFIRMED, 0))
    if secret < 3:
        strongest.pop(Sign.HANDLING, None)
    if _WANTED.isdisjoint(strongest):
        strongest.pop(Sign.STUFFING, None)
    common = sum(weight for sign, weight in strongest.items() if sign in _COMMON and weight < MEDIUM)
    grave = sum(strongest.values()) - common
    if grave < 3:
        common = min(common, MEDIUM - 1 if grave + common < _MUCH else MEDIUM)
    wanted = max(strongest.get(sign, 0) for sign in _WANTED)
    complete = wanted >= _MUCH_WANTED and not _WAYS.isdisjoint(strongest)
    return grave + common + (1 if complete else 0)


def stuffed(hits: Iterable[Hit], start: int) -> list[Hit]:
    """Return that the parameters, whose texts begin at ``start``, take what they ask for."""
    return [
        Hit(hit.start, hit.end, Sign.STUFFING, _STUFFED)
        for hit in hits
        if hit.start >= start and hit.sign in _WANTED and hit.weight >= _MUCH_WANTED
    ]
