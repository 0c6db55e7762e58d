"""The labels of a tool: what the user says, then its server's annotations, then the table, then its words.

An annotation may add labels. It removes only what was guessed from words: a server that claims to be harmless
stays untrusted.

The shipped table, ``known_servers.json``, has one object a server: the packages that start it, the hosts that
it is reached at, and labels by pattern of the tools' names. The first pattern that fits decides. Patterns are
joined by ``|``, and ``external?attendees`` is external only if that parameter is given.

Labels from words are guesses, for tools that the table does not know. Only the name, the title and the first
sentence are read, because the rest of a description tells what else there is. The words are data, in
``tool_words.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec

from tabane.servers.labels import (
    DESTRUCTIVE,
    EXTERNAL,
    NO_CHANGE,
    NO_LABELS,
    PRIVATE,
    UNTRUSTED,
    CallLabels,
    LabelChange,
    label_bits,
)


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """One tool as its server describes it. The three hints are its annotations; None if it says nothing.

    ``parameters`` are the names of its parameters, ``meanings`` their descriptions, in the same order.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: tuple[str, ...] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    meanings: tuple[str, ...] = ()

    @property
    def words(self) -> frozenset[str]:
        """The words of its name, in lower case."""
        return frozenset(words_of(self.name[:_LONGEST_NAME]))


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server as the user configured it: how it is started or reached, and the labels that the user gave.

    ``words`` are its command and arguments. ``change`` is for all of its tools, ``tools`` for single ones.
    """

    name: str
    words: tuple[str, ...] = ()
    url: str = ""
    change: LabelChange = NO_CHANGE
    tools: tuple[tuple[str, LabelChange], ...] = field(default=())


Deed = Literal[
    "read",
    "compute",
    "fetch",
    "send",
    "share",
    "upload",
    "delete",
    "pay",
    "operate",
    "contain",
    "execute",
    "control",
    "update",
    "create",
]
"""Effects of a tool. ``compute`` works on what it is given, ``fetch`` reads an address that the caller
chooses, ``share`` gives others access, ``operate`` uses a page or app as a hand does, ``contain`` is a name
without a verb, ``control`` moves something in the world, and ``pay`` spends or moves money or goods."""

DEEDS: tuple[Deed, ...] = get_args(Deed)

WORDS_FILE = Path(__file__).with_name("tool_words.toml")


@cache
def tool_words(table: str, entry: str) -> frozenset[str]:
    """Return the words of one entry of ``tool_words.toml``."""
    return frozenset(_word_tables()[table].get(entry, "").split())


@cache
def _word_tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(WORDS_FILE.read_text("utf-8"))


@cache
def _verbs(table: Literal["verbs", "unclear"]) -> dict[str, Deed]:
    return {word: deed for deed in DEEDS for word in tool_words(table, deed)}


def _objects(entry: str) -> frozenset[str]:
    return tool_words("objects", entry)


_PARTS = re.compile(
    r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z\u00df-\u024f]+(?:'s)?|[0-9]+[a-z]*|[^\W\d_\u0000-\u024f]+"
)
_SENTENCE = re.compile(r"[.。!?:\n]\s+|[。\n]|\.$")
_WITHOUT_BLANKS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LONGEST_TEXT = 480
_LONGEST_SENTENCE = 240
_LONGEST_NAME = 128
_SHORTEST_SENTENCE = 4
"""Words, below which a line such as "Purpose:" is a heading. The sentence goes on with the next one."""

_OWN_FILE = re.compile(r"\b(?:of the user(?!')|(?:the user's|your|my) own)\b|自分の|利用者の", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?:visible to|seen by|publicly|everyone|anyone)\b|公開", re.IGNORECASE)
_SENDS_TOO = re.compile(r"\band (?:then )?(?:e-?mails?|sends?|texts?|posts?|publish(?:es)?) ", re.IGNORECASE)
_OPENING = 6
"""Words of a description that may hold its verb: "This tool sends …"."""


@cache
def _written_by_others() -> re.Pattern[str]:
    strangers, writing = ("|".join(sorted(_objects(entry))) for entry in ("strangers", "writing"))
    return re.compile(
        rf"\b(?:{strangers})\s+(?:has\s+|have\s+)?(?:{writing})\b"
        r"|\b(?:written|sent|posted|uploaded|submitted|filed|left|created|shared)\s+by\s+"
        r"(?!you\b|the user\b)",
        re.IGNORECASE,
    )


def words_of(text: str) -> list[str]:
    """Return the words of a name or text in lower case: ``sendEmail`` and ``send-email`` have two."""
    return [part.lower() for part in _PARTS.findall(text)]


@dataclass(frozen=True, slots=True)
class _Described:
    """A tool's words: of its name, of that up to a preposition, and of name and first sentence together."""

    name: frozenset[str]
    head: frozenset[str]
    objects: frozenset[str]
    sentence: str
    parameters: tuple[str, ...]

    @property
    def recipients(self) -> tuple[str, ...]:
        return tuple(each for each in self.parameters if each.lower() in _objects("recipients"))

    @property
    def takes_address(self) -> bool:
        return any(each.lower() in _objects("addresses") for each in self.parameters)

    @property
    def is_physical(self) -> bool:
        """Whether it speaks of something that moves or heats, not of a phone or program."""
        return bool(self.objects & _objects("physical") and not self.objects & _objects("not_physical"))

    def names(self, *entries: str) -> bool:
        """Return whether the name has one of these objects."""
        return any(self.name & _objects(entry) for entry in entries)

    def says(self, entry: str) -> bool:
        """Return whether the first sentence has one of these terms of a language without blanks."""
        if self.sentence.isascii():
            return False
        said = self.sentence.lower()
        return any(term in said for term in tool_words("terms", entry))


def inferred_labels(facts: DescribedTool) -> CallLabels:
    """Return the labels that a tool's own words suggest."""
    sentence = _first_sentence(facts.description or facts.title)
    named = words_of(facts.name[:_LONGEST_NAME])
    prepositions = _objects("prepositions")
    end = next((place for place, word in enumerate(named) if place and word in prepositions), len(named))
    described = _Described(
        frozenset(named),
        frozenset(named[:end]),
        frozenset((*named, *words_of(sentence), *words_of(sentence.replace("'s ", " ")))),
        sentence,
        facts.parameters,
    )
    found = NO_LABELS
    if _gives_access(described):
        return found.with_labels(EXTERNAL | DESTRUCTIVE, "name")
    for deed in _deeds_of(facts.name[:_LONGEST_NAME], named, sentence):
        bits, if_given = _BY_DEED[deed](described)
        found = found.with_labels(bits, "name", if_given)
        if deed not in ("read", "contain", "compute", "fetch") and _SENDS_TOO.search(sentence):
            found = found.with_labels(EXTERNAL | DESTRUCTIVE, "name")
    return found


def _first_sentence(text: str) -> str:
    """Return the first sentence of a description, with headings before it."""
    text = text.strip()[:_LONGEST_TEXT]
    end = 0
    for end in (match.end() for match in _SENTENCE.finditer(text)):
        said = text[:end]
        if _WITHOUT_BLANKS.search(said) or len(words_of(said)) >= _SHORTEST_SENTENCE:
            break
    else:
        end = len(text)
    return text[:end][:_LONGEST_SENTENCE]


_TELLING = frozenset({"send", "share", "pay", "delete", "execute", "control"})
"""Effects for which the description counts too, because names such as ``make_offer`` hide them."""


# -- effects ---------------------------------------------------------------------------------------


def _deeds_of(name: str, named: list[str], sentence: str) -> Iterator[Deed]:
    """Yield what a tool does: usually one thing; more if its name joins verbs with ``and``."""
    is_prefixed = "_" not in name and name[:1].isupper()  # by its service, as in GmailSendEmail
    clear = [_clear_deed(part, last=is_prefixed) for part in _split_at_and(named)]
    certain = [deed for deed in clear if deed is not None]
    spoken = _described_deed(sentence)
    if certain:
        yield from dict.fromkeys(certain)
        if spoken in _TELLING and not {"read", "fetch"} & set(certain):
            yield spoken
        return
    verbs = _verbs("unclear")
    nouns = _objects("nouns_alone") if len(named) == 1 else frozenset()
    unclear = next((verbs[word] for word in named if word in verbs.keys() - nouns), None)
    weak = words_of(sentence)[:1] and words_of(sentence)[0] in _objects("weak_verbs")
    if unclear is not None and (spoken is None or weak):
        yield unclear
    elif spoken is not None:
        yield spoken
    else:
        yield _term_deed(name) or "contain"


def _split_at_and(named: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in named:
        if word in ("and", "then"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _clear_deed(part: list[str], *, last: bool) -> Deed | None:
    verbs = _verbs("verbs")
    if len(part) > 1 and part[-2] in _verbs("unclear"):
        part = part[:-1]  # "PostUpdate" is a post
    found = [word for word in part if word in verbs]
    if not found:
        return None
    # "monitor_delete" and "GmailSendEmail" begin with a noun
    last = (last and part[0] not in verbs) or (
        found[0] in _objects("verbs_as_nouns") and part[-1] == found[-1]
    )
    return verbs[found[-1] if last else found[0]]


def _described_deed(sentence: str) -> Deed | None:
    clear, unclear = _verbs("verbs"), _verbs("unclear")
    spoken = [word for word in words_of(sentence)[: 2 * _OPENING] if not word.isdigit()][:_OPENING]
    for place, word in enumerate(spoken):
        for stem in _stems_of(word):
            if stem in clear:
                return clear[stem]
            if place == 0 and stem in unclear and stem not in _objects("nouns_alone"):
                return unclear[stem]
    return _term_deed(sentence)


def _term_deed(text: str) -> Deed | None:
    """Return what a sentence without blanks says, Japanese above all: its verb comes last."""
    if text.isascii():
        return None
    text = text.lower()
    if all(any(term in text for term in tool_words("terms", entry)) for entry in ("execute", "program")):
        return "execute"  # "runs a command and returns its output"
    places = [
        (text.rfind(term) + len(term), len(term), deed)
        for deed in DEEDS
        for term in tool_words("terms", deed)
        if term in text
    ]
    return max(places)[2] if places else None


def _stems_of(word: str) -> Iterator[str]:
    yield word
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("s"):
        yield word[:-1]


# -- labels of what it does -------------------------------------------------------------------------

_Found = tuple[int, tuple[str, ...]]


def _nothing() -> _Found:
    return 0, ()


def _gives_access(tool: _Described) -> bool:
    """Return whether others can read something from then on: by a sharing link, or as members of a group."""
    if tool.names("making") and tool.names("sharing"):
        return tool.names("links") or {"make", "public"} <= tool.name or {"set", "public"} <= tool.name
    adds = tool.name & {"add", "invite", "join"} and not tool.name & {"calendar", "event", "meeting"}
    if not adds or not tool.head & _objects("people"):
        return False
    groups = _objects("groups")
    return bool(tool.name & groups) or any(groups & set(words_of(each)) for each in tool.parameters)


def _compute(tool: _Described) -> _Found:
    if tool.takes_address and tool.objects & _objects("web"):
        return UNTRUSTED | EXTERNAL, ()
    return _nothing()


def _contain(tool: _Described) -> _Found:
    """Return the labels of a tool without a verb, which is named after what it gives: hotel_reviews."""
    found = _compute(tool)
    return found if found[0] else _read(replace(tool, objects=tool.name, sentence=""))


def _operate(tool: _Described) -> _Found:
    if not tool.objects & _objects("browsers"):
        return _nothing()
    return UNTRUSTED | (EXTERNAL if tool.name & {"type", "fill", "press"} else 0), ()


def _read(tool: _Described) -> _Found:
    if tool.takes_address and tool.objects & _objects("web"):
        return UNTRUSTED | EXTERNAL, ()
    own = _is_own_list(tool)
    hit = own or tool.objects & (_objects("private") | _objects("services")) or tool.says("private")
    hit = hit or "knowledge graph" in tool.sentence.lower()
    public = tool.names("public") or "documentation" in tool.objects
    public = public or (tool.says("public") and not tool.names("private"))
    is_private = hit and not (public and not tool.objects & _objects("owner"))
    return (PRIVATE if is_private else 0) | _untrusted(tool, own=own), ()


def _is_own_list(tool: _Described) -> bool:
    """Return whether it lists what the user or an administrator set up, such as contacts or channels."""
    own = _objects("own_lists")
    if tool.head & own:
        others = _objects("untrusted") - _objects("services") | _objects("written_there")
        return not ((tool.head - own) & others or tool.objects & (_objects("said") | _objects("relations")))
    return tool.says("own_lists") and not tool.says("written")


def _untrusted(tool: _Described, *, own: bool) -> int:
    """Return UNTRUSTED if others write it, else 0. A name with an object decides, else the description."""
    if _written_by_others().search(tool.sentence):
        return UNTRUSTED
    if own:  # a channel is named by whoever opens it
        return UNTRUSTED if tool.names("rooms") else 0
    if (
        tool.names("untrusted")
        or tool.objects & (_objects("services") | _objects("received"))
        or _opens_file(tool)
    ):
        return UNTRUSTED
    if tool.head & _objects("own_lists") and (tool.names("said_there") or tool.objects & _objects("said")):
        return UNTRUSTED
    if tool.name & (_objects("private") - _objects("containers")):
        return 0
    said = tool.objects & _objects("untrusted") or tool.says("untrusted")
    return UNTRUSTED if said else 0


def _opens_file(tool: _Described) -> bool:
    """Return whether it gives the text of a file or document of which nobody says who wrote it."""
    if tool.names("about_files") or _OWN_FILE.search(tool.sentence):
        return False
    if tool.names("files"):
        return tool.names("opening")
    return tool.says("files") and tool.says("opening")


def _fetch(tool: _Described) -> _Found:
    if tool.names("opened"):
        return DESTRUCTIVE, ()
    if tool.takes_address or tool.objects & _objects("web"):
        return UNTRUSTED | EXTERNAL, ()
    if "open" in tool.name and tool.names("published"):
        return EXTERNAL, ()
    return _read(tool)


def _send(tool: _Described) -> _Found:
    if tool.names("drafts") or ("forward" in tool.name and tool.names("moving")):
        return _nothing()
    return EXTERNAL | DESTRUCTIVE, ()


def _upload(tool: _Described) -> _Found:
    if tool.names("spoken"):
        return EXTERNAL | DESTRUCTIVE, ()
    is_sent = {"destination", "target", "to"} & set(tool.parameters) and tool.objects & _objects("outside")
    if tool.name & {"upload", "push"} or tool.takes_address or is_sent:
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


def _delete(tool: _Described) -> _Found:
    return _nothing() if tool.names("trivial") else (DESTRUCTIVE, ())


def _pay(tool: _Described) -> _Found:
    sent = tool.name & {"send", "transfer"} or any("recipient" in each.lower() for each in tool.parameters)
    return (EXTERNAL | DESTRUCTIVE if sent else DESTRUCTIVE), ()


def _execute(tool: _Described) -> _Found:
    if not tool.objects & (_objects("program") | _objects("sql")) and not tool.says("program"):
        return _nothing()
    if tool.objects & _objects("browsers"):
        return UNTRUSTED | EXTERNAL | (DESTRUCTIVE if tool.objects & _objects("unsafe") else 0), ()
    return PRIVATE | DESTRUCTIVE, ()


def _control(tool: _Described) -> _Found:
    clear = any(_verbs("verbs").get(word) == "control" for word in tool.name)
    moves = tool.names("guarded") or tool.is_physical or tool.says("guarded")
    return (DESTRUCTIVE, ()) if clear or moves else _nothing()


def _update(tool: _Described) -> _Found:
    if tool.names("guarded", "money", "decisions", "infrastructure") or tool.says("guarded"):
        return DESTRUCTIVE, ()
    if "deploy" in tool.name or ("install" in tool.name and tool.objects & _objects("packages")):
        return DESTRUCTIVE, ()
    if tool.name & {"set", "adjust", "switch", "toggle"} and tool.is_physical:
        return DESTRUCTIVE, ()
    if "merge" in tool.name and tool.names("merged"):
        return DESTRUCTIVE, ()
    if "apply" in tool.name and tool.objects & _objects("infrastructure"):
        return DESTRUCTIVE, ()
    rewrites = tool.names("rewriting") and tool.names("spoken") and not tool.names("trivial", "drafts")
    if rewrites or tool.names("places") or _is_shown(tool):
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


def _is_shown(tool: _Described) -> bool:
    """Return whether others see what is written: it says so, or it is in a repository of a service."""
    return bool(_SHOWN.search(tool.sentence)) or bool({"repo", "repository"} & set(tool.parameters))


def _create(tool: _Described) -> _Found:
    if tool.names("drafts"):
        return _nothing()
    if tool.names("money", "guarded", "infrastructure") or tool.says("guarded"):
        return (DESTRUCTIVE | EXTERNAL if tool.names("places") else DESTRUCTIVE), ()
    if tool.names("calls") and any(set(words_of(each)) & _objects("phones") for each in tool.parameters):
        return EXTERNAL | DESTRUCTIVE, ()
    if tool.names("spoken", "places") or tool.says("spoken") or _is_shown(tool):
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


_BY_DEED: dict[Deed, Callable[[_Described], _Found]] = {
    "read": _read,
    "compute": _compute,
    "fetch": _fetch,
    "send": _send,
    "share": _send,
    "upload": _upload,
    "delete": _delete,
    "pay": _pay,
    "operate": _operate,
    "contain": _contain,
    "execute": _execute,
    "control": _control,
    "update": _update,
    "create": _create,
}

TABLE_FILE = Path(__file__).with_name("known_servers.json")


class KnownServer(msgspec.Struct, frozen=True):
    """One server of the table."""

    name: str
    packages: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}
    memory: bool = False
    """It keeps texts and gives them back."""

    def labels(self, tool: str) -> CallLabels | None:
        """Return the labels of a tool; None if no pattern fits."""
        tool = tool.lower()
        for patterns, given in self.tools.items():
            if any(fnmatchcase(tool, pattern) for pattern in patterns.split("|")):
                found = NO_LABELS
                for text in given:
                    name, _, condition = text.partition("?")
                    found = found.with_labels(
                        label_bits((name,)), "table", tuple(condition.split(",")) if condition else ()
                    )
                return found
        return None


class LabelTable:
    """Finds well-known servers by their package or address. The file is read on first use."""

    def __init__(self, file: Path = TABLE_FILE) -> None:
        self._file = file

    @cached_property
    def servers(self) -> Sequence[KnownServer]:
        """The known servers."""
        return msgspec.json.decode(self._file.read_bytes(), type=list[KnownServer])

    def find(self, server: ServerFacts) -> KnownServer | None:
        """Return what the table knows of a server; None if nothing."""
        try:
            host = (urlsplit(server.url).hostname or "").lower() if server.url else ""
        except ValueError:
            host = ""
        if host:
            return next(
                (
                    known
                    for known in self.servers
                    if any(host == domain or host.endswith("." + domain) for domain in known.hosts)
                ),
                None,
            )
        for word in server.words:
            if (known := self._packages.get(_package_name(word))) is not None:
                return known
        return None

    @cached_property
    def _packages(self) -> dict[str, KnownServer]:
        return {package: known for known in self.servers for package in known.packages}


def _package_name(word: str) -> str:
    """Return the package in a word of a command: without version, tag, folder and source."""
    word = word.rpartition("git+")[2] if "git+" in word else word
    if word.startswith(("/", ".", "~")) or "://" in word:
        word = word.rstrip("/").rpartition("/")[2].removesuffix(".git")
    for mark in ("==", ">=", "["):
        word = word.partition(mark)[0]
    scope, at, name = word[:1], word[1:].partition("@")[1], word[1:].partition("@")[0]
    word = scope + name if at else word
    return word.partition(":")[0].lower()


def labels_of_tool(tool: DescribedTool, server: ServerFacts, table: LabelTable) -> CallLabels:
    """Return the labels of a tool, and where each comes from."""
    change = server.change  # what the user says of the single tool wins
    for pattern, single in server.tools:
        if fnmatchcase(tool.name, pattern):
            change = change.then(single)
    found = NO_LABELS.with_labels(change.added, "settings")
    known = table.find(server)
    listed = known.labels(tool.name) if known is not None else None
    annotated = NO_LABELS
    if tool.destructive and not tool.read_only:
        annotated = annotated.with_labels(DESTRUCTIVE, "annotation")
    if tool.open_world and listed is None:
        annotated = annotated.with_labels(UNTRUSTED if tool.read_only else EXTERNAL, "annotation")
    if not listed:
        listed = inferred_labels(tool)
        listed = listed.without(DESTRUCTIVE) if tool.read_only else listed
    for rest in (annotated, listed):
        for bit, origin in rest.origins:
            found = found.with_labels(bit & ~change.removed, origin, rest.if_given)
    return found
