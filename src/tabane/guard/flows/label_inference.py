"""Labels that follow from what a tool says of itself: its name, its description and its parameters.

They are guesses, for tools that the table does not know. Only the name, the title and the first sentence are
read, because the rest of a description tells what else there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tabane.guard.flows import label_words as words
from tabane.guard.flows.label_words import Deed
from tabane.guard.flows.tool_facts import DescribedTool
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL, NO_LABELS, PRIVATE, UNTRUSTED, CallLabels

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+(?:'s)?|[0-9]+[a-z]*")
_SENTENCE = re.compile(r"[.。!?\n]\s|[。\n]|\.$")
_LONGEST_SENTENCE = 240
_LONGEST_NAME = 128
_WRITTEN_BY_OTHERS = re.compile(
    rf"\b(?:{'|'.join(words.STRANGERS.split())})\s+(?:has\s+|have\s+)?(?:{'|'.join(words.WRITING.split())})\b"
    r"|\b(?:written|sent|posted|uploaded|submitted|filed|left|created|shared)\s+by\s+(?!you\b|the user\b)",
    re.IGNORECASE,
)
_OPENING = 6
"""Words of a description that may hold its verb: "This tool sends …"."""


@dataclass(frozen=True, slots=True)
class _Described:
    """A tool's words: of its name, and of name and first sentence together."""

    name: frozenset[str]
    objects: frozenset[str]
    sentence: str
    parameters: tuple[str, ...]

    @property
    def recipients(self) -> tuple[str, ...]:
        return tuple(each for each in self.parameters if each.lower() in words.RECIPIENTS)

    @property
    def takes_address(self) -> bool:
        return any(each.lower() in words.ADDRESSES for each in self.parameters)

    def says(self, terms: tuple[str, ...]) -> bool:
        """Return whether the first sentence has one of these Japanese terms."""
        return any(term in self.sentence for term in terms)


def inferred_labels(facts: DescribedTool) -> CallLabels:
    """Return the labels that a tool's own words suggest."""
    sentence = _first_sentence(facts.description or facts.title)
    named = _words_of(facts.name[:_LONGEST_NAME])
    described = _Described(
        frozenset(named), frozenset((*named, *_words_of(sentence))), sentence, facts.parameters
    )
    found = NO_LABELS
    for deed in _deeds(facts.name[:_LONGEST_NAME], named, sentence):
        bits, if_given = _BY_DEED[deed](described)
        found = found.with_labels(bits, "name", if_given)
    return found


def _first_sentence(text: str) -> str:
    return _SENTENCE.split(text.strip()[: 2 * _LONGEST_SENTENCE], maxsplit=1)[0][:_LONGEST_SENTENCE]


def _words_of(text: str) -> list[str]:
    return [part.lower() for part in _PARTS.findall(text)]


_TELLING = frozenset({"send", "share", "pay", "delete", "execute", "control"})
"""Effects for which the description counts too, because names such as ``make_offer`` hide them."""


# -- effects ---------------------------------------------------------------------------------------


def _deeds(name: str, named: list[str], sentence: str) -> Iterator[Deed]:
    """Yield what a tool does: usually one thing; more if its name joins verbs with ``and``."""
    clear = [_clear_deed(part, last=_is_prefixed(name)) for part in _joined(named)]
    certain = [deed for deed in clear if deed is not None]
    spoken = _described_deed(sentence)
    if certain:
        yield from dict.fromkeys(certain)
        if spoken in _TELLING and not {"read", "fetch"} & set(certain):
            yield spoken
        return
    nouns = words.NOUNS_ALONE if len(named) == 1 else frozenset()
    unclear = next(
        (words.UNCLEAR_VERBS[word] for word in named if word in words.UNCLEAR_VERBS.keys() - nouns), None
    )
    weak = _words_of(sentence)[:1] and _words_of(sentence)[0] in words.WEAK_VERBS
    if unclear is not None and (spoken is None or weak):
        yield unclear
    elif spoken is not None:
        yield spoken


def _joined(named: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in named:
        if word in ("and", "then"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _is_prefixed(name: str) -> bool:
    """Return whether a name has its service in front, as ``GmailSendEmail`` does."""
    return "_" not in name and name[:1].isupper()


def _clear_deed(part: list[str], *, last: bool) -> Deed | None:
    if len(part) > 1 and part[-2] in words.UNCLEAR_VERBS:
        part = part[:-1]  # "PostUpdate" is a post
    found = [words.CLEAR_VERBS[word] for word in part if word in words.CLEAR_VERBS]
    if not found:
        return None
    return found[-1] if last and part[0] not in words.CLEAR_VERBS else found[0]


def _described_deed(sentence: str) -> Deed | None:
    spoken = _words_of(sentence)[:_OPENING]
    for place, word in enumerate(spoken):
        for stem in _stems(word):
            if stem in words.CLEAR_VERBS:
                return words.CLEAR_VERBS[stem]
            if place == 0 and stem in words.UNCLEAR_VERBS and stem not in words.NOUNS_ALONE:
                return words.UNCLEAR_VERBS[stem]
    return _japanese_deed(sentence)


def _japanese_deed(sentence: str) -> Deed | None:
    """Return what a Japanese sentence says: its verb comes last."""
    if sentence.isascii():
        return None
    places = [
        (sentence.rfind(term) + len(term), len(term), deed)
        for deed, terms in words.JAPANESE_DEEDS
        for term in terms
        if term in sentence
    ]
    return max(places)[2] if places else None


def _stems(word: str) -> Iterator[str]:
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


def _read(tool: _Described) -> _Found:
    if tool.takes_address and tool.objects & words.WEB_OBJECTS:
        return UNTRUSTED | EXTERNAL, ()
    return _private(tool) | _untrusted(tool), ()


def _private(tool: _Described) -> int:
    hit = tool.objects & words.PRIVATE_OBJECTS or tool.says(words.JAPANESE_PRIVATE)
    public = tool.name & words.PUBLIC_OBJECTS or (
        tool.says(words.JAPANESE_PUBLIC) and not tool.name & words.PRIVATE_OBJECTS
    )
    return PRIVATE if hit and not (public and not tool.objects & words.OWNER_WORDS) else 0


def _untrusted(tool: _Described) -> int:
    """Return whether strangers write it: the name decides if it has an object, otherwise the description."""
    if tool.name & words.UNTRUSTED_OBJECTS or tool.objects & words.RECEIVED:
        return UNTRUSTED
    if _WRITTEN_BY_OTHERS.search(tool.sentence):
        return UNTRUSTED
    if tool.name & (words.PRIVATE_OBJECTS - words.CONTAINERS):
        return 0
    said = tool.objects & words.UNTRUSTED_OBJECTS or tool.says(words.JAPANESE_UNTRUSTED)
    return UNTRUSTED if said else 0


def _fetch(tool: _Described) -> _Found:
    if tool.name & words.OPENED_OBJECTS:
        return DESTRUCTIVE, ()
    if tool.takes_address or tool.objects & words.WEB_OBJECTS:
        return UNTRUSTED | EXTERNAL, ()
    if "open" in tool.name and tool.name & words.PUBLISHED_OBJECTS:
        return EXTERNAL, ()
    return _read(tool)


def _send(tool: _Described) -> _Found:
    if tool.name & words.DRAFTS:
        return _nothing()
    return EXTERNAL | DESTRUCTIVE, ()


def _upload(tool: _Described) -> _Found:
    if tool.name & {"upload", "push"} or tool.takes_address:
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


def _delete(tool: _Described) -> _Found:
    return _nothing() if tool.name & words.TRIVIAL_OBJECTS else (DESTRUCTIVE, ())


def _pay(tool: _Described) -> _Found:
    return (EXTERNAL | DESTRUCTIVE if tool.name & {"send", "transfer"} else DESTRUCTIVE), ()


def _execute(tool: _Described) -> _Found:
    if not tool.objects & words.PROGRAM_OBJECTS and not tool.says(
        ("コマンド", "スクリプト", "コード", "シェル")
    ):
        return _nothing()
    return PRIVATE | DESTRUCTIVE, ()


def _control(tool: _Described) -> _Found:
    clear = any(words.CLEAR_VERBS.get(word) == "control" for word in tool.name)
    guarded = tool.name & words.GUARDED_OBJECTS or tool.says(words.JAPANESE_GUARDED)
    return (DESTRUCTIVE, ()) if clear or guarded else _nothing()


def _update(tool: _Described) -> _Found:
    if "trash" in tool.name:
        return DESTRUCTIVE, ()
    risky = tool.name & (words.GUARDED_OBJECTS | words.MONEY_OBJECTS | {"approve", "merge"})
    if risky or tool.says(words.JAPANESE_GUARDED):
        return DESTRUCTIVE, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


def _create(tool: _Described) -> _Found:
    if tool.name & words.DRAFTS:
        return _nothing()
    if tool.name & (words.MONEY_OBJECTS | words.GUARDED_OBJECTS) or tool.says(words.JAPANESE_GUARDED):
        return DESTRUCTIVE, ()
    if tool.name & words.SPOKEN_OBJECTS or tool.says(words.JAPANESE_SPOKEN):
        return EXTERNAL, ()
    return (EXTERNAL, tool.recipients) if tool.recipients else _nothing()


_BY_DEED: dict[Deed, Callable[[_Described], _Found]] = {
    "read": _read,
    "fetch": _fetch,
    "send": _send,
    "share": _send,
    "upload": _upload,
    "delete": _delete,
    "pay": _pay,
    "execute": _execute,
    "control": _control,
    "update": _update,
    "create": _create,
}
