"""The scanner: a definition in, findings out. It reads what a model would read, and runs nothing.

All definitions that servers list are scanned together, since some attacks name the tools of others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from tabane.errors import BadArguments
from tabane.guard.scanner.evidence import (
    HIGH,
    INSTALLER,
    MARKS,
    MEDIUM,
    PASSAGE,
    Hit,
    Passage,
    Sign,
    heaviest,
    hits_of,
    stuffed,
    words_of,
)
from tabane.guard.scanner.findings import (
    HIDDEN,
    MOST_EXCERPT,
    SEVERITIES,
    Finding,
    Kind,
    ScannedText,
    Severity,
    excerpt_of,
    passage_of,
)
from tabane.guard.scanner.hidden_characters import (
    DefinitionTexts,
    decoded_payloads,
    definition_texts,
    visible,
)
from tabane.guard.scanner.lookalikes import (
    KnownNames,
    backward_text,
    disguised_words,
    lookalike,
    spaced_orders,
    undisguised,
    without_leet,
)
from tabane.guard.scanner.rules import LONE_PATH, rule_hits
from tabane.guard.scanner.sentences import (
    PARAGRAPH,
    SENTENCE_END,
    Names,
    Sentences,
    camel_names,
    family,
    purpose,
)
from tabane.guard.scanner.vocabulary import Meaning, folded, languages_of, unmarked, word_order, word_set
from tabane.messages import Message, say
from tabane.wire.json import InvalidJson, elements, fields, text

ORDERS, EXFILTRATION, SHADOWING = "orders", "exfiltration", "shadowing"

_ENCODED = 2
"""Weight of a passage that was encoded from which it is a finding: nobody encodes what harms nobody."""

_MARKS = str.maketrans({"*": None, "`": None, "\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})
_JOINTS = re.compile(r"[_\-.]+|(?<=[a-z])(?=[A-Z])")

_EXFILTRATING = frozenset({Sign.SECRETS, Sign.CONVERSATION})
_PREFERRING = frozenset({Sign.EXCLUSIVE, Sign.ORDER, Sign.PRESSURE, Sign.STUFFING, Sign.HANDLING})
"""Signs of a tool that wants to be preferred, as honest ones do, too."""
_SHADOWING = frozenset({Sign.OTHER_TOOL, Sign.REDIRECT, Sign.EXCLUSIVE})


class DefinitionScanner:
    """Scans definitions of tools, prompts, resources, skills, and instructions of servers.

    It keeps the names of the last call prepared, so that scanning all tools of a server with the same
    ``others`` prepares them once.
    """

    def __init__(self) -> None:
        self._known = KnownNames(())
        self._others: Collection[str] | None = None
        self._given: Collection[str] | None = None
        self._siblings: frozenset[str] = frozenset()

    def scan(
        self,
        server: str,
        kind: Kind,
        name: str,
        definition: bytes,
        others: Collection[str],
        siblings: Collection[str] = (),
    ) -> tuple[Finding, ...]:
        """Return what is suspicious about a definition: at most one finding of a rule, the worst first.

        ``definition`` is its JSON, or the text of a skill or of instructions. ``others`` are the names of
        tools of other servers, public or their own; a frozenset or tuple is prepared once. ``siblings`` are
        those of the same server, which a definition may name. Never raises for what a server sends. A usual
        tool takes less than a millisecond, the largest text some hundred.
        """
        known = self._names(others)
        if siblings is not self._given:
            self._given, self._siblings = siblings, frozenset(map(str.lower, siblings))
        read = _ReadDefinition(name, definition_texts(definition), server, kind, known, self._siblings)
        found = list(read.findings())
        if kind in ("tool", "prompt"):
            found.extend(lookalike(server, name, known))
        return tuple(read.verbatim(each) for each in _worst_of_each_rule(found))

    def _names(self, others: Collection[str]) -> KnownNames:
        fixed = isinstance(others, frozenset | tuple)
        if not fixed or others is not self._others:
            self._known, self._others = KnownNames(others), others if fixed else None
        return self._known


class _ReadDefinition:
    """The texts of a definition as a person sees them, in small letters, and what was hidden in them."""

    def __init__(
        self,
        name: str,
        texts: DefinitionTexts,
        server: str,
        kind: Kind,
        known: KnownNames,
        siblings: Collection[str],
    ) -> None:
        self._texts = texts
        self._marks = [one for one in MARKS if kind != "skill" or one is not INSTALLER]
        self._names = Names(
            name.lower(),
            frozenset(one.lower() for one in texts.names),
            siblings,
            known.names,
            family=family(server, name),
        )
        self._complete = texts.complete
        self._found: list[Finding] = []
        self._hidden: list[str] = []
        self._disguised: list[str] = []
        self._purpose = purpose(name)
        self._owner = f"{server}_{name}".lower()
        said = "\n".join(map(self._seen, texts.texts))
        asked = "\n".join(
            [*map(self._seen, texts.parameters), *(_sentence(self._seen(n)) for n in texts.names)]
        )
        said = unmarked(said)
        self._whole = f"{said}\n{unmarked(asked)}"
        self.text = folded(self._whole)
        self._names.camel = camel_names(self._whole)
        self._asked = len(said) + 1
        self._words = words_of(self.text)

    def _weight(self, text: str, words: frozenset[str] | None = None) -> Passage:
        """Return the passage with the most evidence."""
        words = words_of(text) if words is None else words
        languages = languages_of(text, words)
        self._names.written = self._whole if text is self.text else ""
        read = Sentences(text, self._names, languages)
        found = rule_hits(read, word_order(languages), self._purpose)
        hits = [hit for hit in found if not self._is_ordinary(text, hit)]
        if self._texts.names and text is self.text and not self._purpose & _TALKING:
            hits += self._asked_names()
        hits += hits_of(text, [one for one in self._marks if one.may_be_in(text)])
        return heaviest(text, [*hits, *stuffed(hits, self._asked)])

    def _asked_names(self) -> Iterator[Hit]:
        """Yield the parameters that by their name take what the model knows."""
        keys = not _KEEPS_KEYS.search(self._owner)
        for name in self._names.fields:
            named = _KEYS.search(name) or (name == "pat" and "token" in self._words)
            if (name in CONTEXT_PARAMETERS or (keys and named)) and (
                at := self.text.find(name, self._asked)
            ) >= 0:
                yield Hit(at, at + len(name), Sign.CONVERSATION, MEDIUM)

    def _is_ordinary(self, text: str, hit: Hit) -> bool:
        """Return whether a hit says what a tool of this name is for: one that sends speaks of sending.

        A path alone counts for less among parameters, where examples are.
        """
        if (
            hit.sign is Sign.SECRETS
            and hit.weight == LONE_PATH
            and " " not in (path := text[hit.start : hit.end])
        ):
            return hit.start >= self._asked or any(word in path for word in self._names.family)
        if hit.sign is Sign.OVERRIDE:
            if text.startswith("from ", hit.start):
                return not _CLAUSE_BEGINS.search(text, max(0, hit.start - 5), hit.start)
            return bool(
                _IN_DATA.match(text, hit.end) or _OF_WORK.search(text, hit.start, hit.end)
            ) and not _GIVEN.search(text, hit.start, hit.end)
        if hit.sign is Sign.SECRECY and _NOT_OF_THAT.match(text, hit.start, hit.end):
            return True
        if hit.sign is Sign.CONVERSATION and _TO_USERS.search(text, hit.start, hit.end):
            return True
        if hit.sign is Sign.SECRETS and "authorization header" in text[hit.start : hit.end + PASSAGE // 4]:
            return hit.weight <= MEDIUM
        if hit.sign is Sign.SECRETS and any(
            path in text[hit.start : hit.end] for name, path in _OWN_FILES if name in self._owner
        ):
            return True
        if hit.sign is Sign.HANDLING:
            return bool(self._purpose & Meaning.SEND)
        if hit.sign is Sign.CONVERSATION:
            return hit.weight <= MEDIUM and bool(self._purpose & (Meaning.TALK | Meaning.MESSAGES))
        return hit.sign is Sign.SECRETS and hit.weight <= 4 and bool(self._purpose & Meaning.SECRET)

    def _seen(self, text: str) -> str:
        if text.isascii() and text.isprintable() and not any(map(text.__contains__, _MARKED)):
            return text  # as most are: nothing can be hidden in it, and nothing has to be replaced
        seen = visible(text)
        self._found.extend(seen.findings)
        self._hidden.extend(seen.decoded)
        if seen.text.isascii():
            return _in_a_line(seen.text.replace("*", "").replace("`", ""))
        plain = unicodedata.normalize("NFKC", seen.text)
        self._disguised.extend(disguised_words(plain))
        return _in_a_line(undisguised(plain).translate(_MARKS))

    def verbatim(self, finding: Finding) -> Finding:
        """Return a finding whose excerpt is as the server wrote it, with its capitals and marks."""
        for written in (*self._texts.texts, *self._texts.parameters, *self._texts.names, self._whole):
            if (place := passage_of(finding.excerpt, written)) is not None:
                start, end = place
                while end < len(written) and end < place[1] + 3 and written[end] in _CLOSING:
                    end += 1
                excerpt = excerpt_of(written, start, end)
                if finding.excerpt.endswith("\u2026") and not excerpt.endswith("\u2026"):
                    excerpt += "\u2026"
                return replace(finding, excerpt=excerpt)
        return finding

    def findings(self) -> Iterator[Finding]:
        yield from self._found
        if not self._complete:
            yield Finding(HIDDEN, "medium", say("It is too long to be scanned: only its beginning was."))
        if self._disguised:
            what = say("Words mix letters of several scripts that look the same.")
            severity: Severity = "high" if len(self._disguised) > 1 else "medium"
            yield Finding(HIDDEN, severity, what, excerpt_of(" ".join(self._disguised)))
        passage = self._weight(self.text, self._words)
        if passage.weight >= MEDIUM:
            finding = _finding(self._whole, passage)
            names = re.findall(r"[\w-]+", finding.excerpt.lower()) if finding.rule == SHADOWING else ()
            if (tool := next((one for one in names if one in self._names.foreign), None)) is not None:
                what = say("It tells the model how to use {tool}, a tool of another server.", tool=tool)
                finding = replace(finding, message=what)
            yield finding
        yield from self._encoded(passage.weight)

    def _encoded(self, plain: int) -> Iterator[Finding]:
        for payload in (*self._hidden, *decoded_payloads(self._whole, self._words)):
            if self._weight(folded(unmarked(_in_a_line(payload)))).weight >= _ENCODED:
                yield Finding(
                    HIDDEN, "high", say("It contains encoded orders to the model."), excerpt_of(payload)
                )
        least = max(MEDIUM, plain + 1)
        disguised = without_leet(self.text)
        if disguised is not None and self._weight(disguised).weight < least:
            disguised = None
        disguised = disguised or spaced_orders(self.text) or backward_text(self.text, self._words)
        if disguised is not None:
            yield Finding(
                HIDDEN, "high", say("It spells orders to the model in a disguise."), excerpt_of(disguised)
            )


CONTEXT_PARAMETERS = word_set(
    "tools_list tool_list list_of_tools available_tools all_tools system_prompt systemprompt "
    "conversation_history chat_history full_conversation conversation_context conversation_id_history "
    "chain_of_thought model_name_and_version previous_messages message_history environment_variables "
    "env_vars all_env_vars process_env ssh_key private_key_content"
)
"""Names of parameters that take what only the model or its host knows."""

_KEYS = re.compile(r"private_?key|seed_?phrase|mnemonic|^session_?cookies?$|gpg_|ssh_key|master_pass")
_KEEPS_KEYS = re.compile(
    r"vault|secret|login|log_in|sign_?in|auth|connect|ssh|wallet|key|cookie|cert|crypt|pem"
)
"""Parameters that take keys, and what tools are named that need them."""
_TALKING = int(
    Meaning.MODEL | Meaning.TALK | Meaning.PROMPT | Meaning.MESSAGES | Meaning.SECRET | Meaning.RUN
)
_CLOSING = ".!?\u3002)'\"\u201d"
_OWN_FILES = (("ssh", "ssh"), ("aws", ".aws"), ("kube", "kube"), ("k8s", "kube"), ("docker", ".docker"))
"""What tools are named, and which files with keys those read."""
_CLAUSE_BEGINS = re.compile(r"(?:^|[^\w\s]\s?|\n|\band )$")
"""Before "from now on": at the end of a clause it says how long something lasts."""
_IN_DATA = re.compile(
    r"\W{0,2}(?:(?:that|which|are|is|you|may|might|it) ){0,4}(?:in|from|inside|within"
    r"|contain\w*|found|embedded|appear\w*)\b"
    r"(?! (?:the |your |this )?(?:user|system|developer|prompt|context|conversation|operator|admin))"
)
_OF_WORK = re.compile(r"\b(?:limit|limitation|constraint|order|command|polic|restriction)(?:s|y|ies)?$")
_GIVEN = re.compile(r"previous|prior|earlier|above|system|developer|original|your|safety")
"""Which rules are not to be followed: honest texts speak of those in data and work, attacks of given ones."""
_NOT_OF_THAT = re.compile(
    r"(?:not|cannot|\w{2,6}n't) (?:be )?(?:\w+(?:ing|ed)|found|available|set|known|given|valid|empty|present"
    r"|exist|possible|sure|clear)\b[^,;.]{0,40},|n(?:e |')(?:(?!\b(?:pas|jamais|rien)\b).){0,40}\bqu(?:e\b|')"
)
"""What is negated is another clause ("if it is not running, tell the user"), or is "only" ("ne ... que")."""
_TO_USERS = re.compile("ユーザー(?:全員)?に")
_MARKED = ("  ", "<", "*", "`")


_ITEM = re.compile(r"\s{0,200}(?:[-*\u2022#]|\d{1,3}[.)]|<|\[|@?[\w ]{1,40}:\s|$)")


def _in_a_line(text: str) -> str:
    """Return a text in one line, with a mark where a paragraph or an item of a list begins."""
    if "\n" not in text:
        return " ".join(text.split())
    lines = text.split("\n")
    return " ".join(
        part for line in lines for part in (*((PARAGRAPH,) if _ITEM.match(line) else ()), *line.split())
    )


def _sentence(name: str) -> str:
    """Return a name as words too if it has many: a name may be an order."""
    words = _JOINTS.sub(" ", name)
    return f"{name}\n{words}" if words.count(" ") >= 3 else name


def _finding(text: str, passage: Passage) -> Finding:
    severe = passage.weight >= HIGH
    if passage.signs <= _PREFERRING:
        severe = max(hit.weight for hit in passage.hits) > HIGH
    severity: Severity = "high" if severe else "medium"
    rule, message = _rule(passage)
    return Finding(rule, severity, message, excerpt_of(text, *_order_in(text, passage)))


def _order_in(text: str, passage: Passage) -> tuple[int, int]:
    """Return where the order is: the sentences of a passage if they are short, otherwise the weightiest."""
    spans = [(*_sentence_at(text, hit.start, hit.end), hit) for hit in passage.hits]
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    if end - start <= MOST_EXCERPT:
        return start, end
    weights: dict[tuple[int, int], dict[Sign, int]] = {}
    for begin, stop, hit in spans:
        signs = weights.setdefault((begin, stop), {})
        signs[hit.sign] = max(signs.get(hit.sign, 0), hit.weight)
    start, end = max(weights, key=lambda span: sum(weights[span].values()))
    if end - start > MOST_EXCERPT:  # no sentence is that long: begin with what was found
        start = min(hit.start for begin, stop, hit in spans if (begin, stop) == (start, end))
    return start, end


def _sentence_at(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of the sentence around a span, which are looked for nearby."""
    begin = max(0, start - MOST_EXCERPT)
    for found in SENTENCE_END.finditer(text, begin, start):
        begin = found.end()
    after = SENTENCE_END.search(text, max(start, end - 1), end + MOST_EXCERPT)
    stop = after.end() if after is not None else min(len(text), end + MOST_EXCERPT)
    while begin < start and text[begin] in _BLANKS:
        begin += 1
    while stop > end and text[stop - 1] in _BLANKS:
        stop -= 1
    return begin, stop


_BLANKS = " \n" + PARAGRAPH


def _rule(passage: Passage) -> tuple[str, Message]:
    signs = passage.signs
    if not signs.isdisjoint(_EXFILTRATING):
        return EXFILTRATION, say("It asks the model for secrets or for the conversation.")
    if not signs.isdisjoint(_SHADOWING):
        return SHADOWING, say("It tells the model how to use other tools, or to use none but this one.")
    return ORDERS, say("It gives orders to the model.")


def _worst_of_each_rule(found: list[Finding]) -> tuple[Finding, ...]:
    best: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda one: SEVERITIES.index(one.severity)):
        best.setdefault(finding.rule, finding)
    return tuple(best.values())


KINDS: Mapping[str, Kind] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "template",
    "skills": "skill",
}
"""The kind of the definitions in each list."""

MOST_FILE = 32 << 20
"""Bytes of a file with definitions."""


class ScannedDefinition(NamedTuple):
    """A definition of a server, and what was found in it."""

    server: str
    kind: Kind
    name: str
    findings: tuple[Finding, ...]


class ListedDefinition(NamedTuple):
    """A definition that a server lists."""

    server: str
    kind: Kind
    name: str
    definition: bytes


class ListedServer(NamedTuple):
    """The definitions of a server, and the names of the tools of others that a tool may imitate."""

    server: str
    definitions: tuple[ScannedText, ...]
    others: frozenset[str]


def by_server(
    definitions: Sequence[ListedDefinition], wanted: Iterable[str] | None = None
) -> Iterator[ListedServer]:
    """Yield the definitions of each of the ``wanted`` servers, all if it is None."""
    tools = {(one.server, one.name) for one in definitions if one.kind == "tool"}
    chosen = {one.server for one in definitions} if wanted is None else set(wanted)
    for server in dict.fromkeys(one.server for one in definitions if one.server in chosen):
        own = {name for owner, name in tools if owner == server}
        others = frozenset(
            part
            for owner, name in tools
            if owner != server and name not in own
            for part in (name, f"{owner}__{name}")
        )
        texts = (
            ScannedText(one.kind, one.name, one.definition) for one in definitions if one.server == server
        )
        yield ListedServer(server, tuple(texts), others)


def scanned(definitions: Sequence[ListedDefinition]) -> Iterator[ScannedDefinition]:
    """Yield what was found in the definitions of all servers, scanned at once."""
    scanner = DefinitionScanner()
    for server, texts, others in by_server(definitions):
        own = frozenset(one.name for one in texts if one.kind == "tool")
        for one in texts:
            findings = scanner.scan(server, one.kind, one.name, bytes(one.body), others, own)
            yield ScannedDefinition(server, one.kind, one.name, findings)


def listed(server: str, lists: Mapping[str, Iterable[bytes | Raw]]) -> Iterator[ListedDefinition]:
    """Yield the definitions in a server's lists."""
    for name, definitions in lists.items():
        kind = KINDS.get(name)
        if kind is not None:
            for definition in definitions:
                yield ListedDefinition(server, kind, _name(definition), bytes(definition))


def definitions_of_file(server: str, content: bytes) -> list[ListedDefinition]:
    """Return the definitions in a file: an answer of tools/list, its result, or a list of tools.

    Raises BadArguments if it is none of these.
    """
    try:
        if content.lstrip()[:1] == b"[":
            return list(listed(server, {"tools": elements(content)}))
        members = fields(content)
        members = fields(members["result"]) if "result" in members else members
        lists = {name: elements(raw) for name, raw in members.items() if name in KINDS}
        if "resourceTemplates" in members:
            lists["templates"] = elements(members["resourceTemplates"])
    except InvalidJson:
        lists = {}
    if not lists:
        raise BadArguments(
            say("The file holds no definitions. Expected the JSON that a server returns for tools/list."),
            "file",
        )
    return list(listed(server, lists))


def _name(definition: bytes | Raw) -> str:
    try:
        members = fields(definition)
    except InvalidJson:
        return ""
    return text(members.get("name")) or text(members.get("uri")) or text(members.get("uriTemplate")) or ""
