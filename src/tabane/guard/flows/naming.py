"""Where the target of a call was named: by the user's own words, in a record, or only in a text of others.

A trail keeps the texts that it was given and has read, as bytes. They are looked at only when a call may have
to be asked about. A record is a JSON object that a listing tool returned: the service wrote its fields, and
the author of the record wrote the texts in it. Whoever sends a mail chooses its ``From`` and ``Cc``, so an
address in a record belongs to the record's author. A list that a YAML writer has written holds records too.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from tabane.guard.flows.addresses import SPELLING, is_known_site, unescaped
from tabane.guard.flows.targets import Target, folded, legible, mails_in, number_text

LONGEST_READ = 1 << 17
"""Bytes of texts of others that a trail keeps. If there are more, what is named nowhere is asked about."""

LONGEST_OWN, LONGEST_SAID = 1 << 16, 1 << 15
"""Bytes of the user's own texts that a trail keeps, and of what a client gave to tools."""

MOST_COMPARED = 1 << 25
"""Characters of texts, times the forms of a target, that are compared for one call."""

MOST_FIELDS = 20_000
"""Fields of records in one result. The rest is taken for text."""

MOST_LINES, LONGEST_LINE = 4_000, 1_000
"""Lines of a list in a text, and characters in one of them. A longer one is taken for text."""

TextRole = Literal["said", "own", "written", "later", "others"]
"""``said``: given before anything untrusted was read. ``own``: read before that from another source.
``written`` and ``later``: the same after something untrusted was read. ``others``: untrusted."""


_ROOM: dict[TextRole, int] = {
    "said": LONGEST_SAID, "own": LONGEST_OWN, "written": LONGEST_SAID, "later": LONGEST_OWN,
    "others": LONGEST_READ,
}  # fmt: skip


class KeptText(NamedTuple):
    """A text with the source and tool that returned it. ``listing``: its JSON objects are records."""

    role: TextRole
    body: bytes
    source: str = ""
    tool: str = ""
    listing: bool = False
    public: bool = False
    """A text of a source that is not its reader's own, such as a list of hotels, or may be an echo."""

    homes: tuple[str, ...] = ()
    """Hosts of the pages that it is from. Whoever reads a page does not mean to send something there."""

    acts: bool = False
    """It was given to a tool that changes or deletes something: whoever reads a file does not mean that."""


class TrailTexts:
    """The texts of a trail. ``whole``: False if something untrusted is not among them any more.

    ``echoes_known``: False if something written after it is not among them.
    """

    __slots__ = ("_sizes", "echoes_known", "kept", "version", "whole")

    def __init__(self) -> None:
        self.kept: list[KeptText] = []
        self.whole = self.echoes_known = True
        self.version = 0
        self._sizes = dict.fromkeys(_ROOM, 0)

    def add(self, text: KeptText) -> int:
        """Keep a text as far as there is room. Return the bytes that were added."""
        role, size = text.role, len(text.body)
        used = self._sizes[role]
        room = _ROOM[role] - used
        if size > room:
            if role in ("others", "later"):
                self.whole = False
            elif role == "written" and self.echoes_known:
                # From now on, a later text may repeat something that is not known any more.
                self.echoes_known = False
                self.version += 1
            if room <= 0:
                return 0
            text, size = text._replace(body=text.body[:room]), room
        self._sizes[role] = used + size
        self.kept.append(text)
        self.version += 1
        return size

    @property
    def stamp(self) -> int:
        """A number that changes whenever something else may be known."""
        return 2 * self.version + self.whole

    def is_full(self, role: TextRole) -> bool:
        """Return whether there is no room for another text of that role."""
        return self._sizes[role] >= _ROOM[role]

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return sum(self._sizes.values())

    def drop(self) -> int:
        """Forget all texts, to make room. Return their bytes."""
        size = self.size
        self.whole = self.whole and not self._sizes["others"]
        self.kept = []
        self._sizes = dict.fromkeys(_ROOM, 0)
        self.version += 1
        return size


# -- records -----------------------------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AUTHORS = _words(
    "user username 差出人 送信者 送信元 作成者 主催者 投稿者 "
    "from sender author owner organizer organiser creator createdby created_by postedby posted_by "
    "sentby sent_by submitter reporter uploader uploadedby uploaded_by sharedby shared_by fromaddress "
    "from_address replyto reply_to invitedby invited_by requester debtor payer"
)
_RELATIONS = _words(
    "to cc bcc recipient recipients participant participants attendee attendees invitee invitees guest "
    "guests member members beneficiary payee creditor iban account accountnumber account_number "
    "shared_with sharedwith collaborators assignee assignees 参加者 出席者 宛先 受信者 受取人 招待者 共有相手"
)
"""Fields that say whom the reader has to do with. An ``email`` may be that of whoever filled in a form."""

_IDENTITIES = (
    _AUTHORS
    | _RELATIONS
    | _words(
        "to cc bcc recipient recipients participant participants attendee attendees invitee invitees guest "
        "guests user users username login handle nick display_name displayname real_name name channel "
        "channels room group members member email emails mail address phone iban account accountnumber "
        "account_number beneficiary payee creditor shared_with sharedwith collaborators assignee assignees "
        "id _id id_ uid uuid key number sha filename file path hotel restaurant company airline city"
    )
)

_ME = _words("me self you 私 自分")
_LONGEST_FIELD, _LONGEST_NAME = 200, 60
_NAMED_ID = re.compile(r"(?:_|(?<=[a-z]))(?:[iI][dD]s?)$")

_SENT = re.compile(r"(?:^|_)(?:sent|outbox)(?:$|_)(?!to|by)", re.IGNORECASE)
_SELF = re.compile(r"who_?am_?i|user_?info|_me$|^me$|self|current_user|iban|own_?account", re.IGNORECASE)


class Field(NamedTuple):
    """A field of a record, with who wrote the record: nobody, its reader, or somebody else.

    ``relates``: the field says whom the reader has to do with. ``authors`` are their names, folded.
    """

    author: Literal["none", "self", "other"]
    relates: bool
    authors: tuple[str, ...]
    source: str
    tool: str


_KEY = re.compile(r"((?!-)[\w.@+-]{1,120}):(?: (.+))?")
_OPEN = {"'": re.compile(r"(?:[^']|'')*"), '"': re.compile(r'(?:[^"\\]|\\.)*\\?')}
_CLOSED = {"'": re.compile(r"(?:[^']|'')*'"), '"': re.compile(r'(?:[^"\\]|\\.)*"')}
_NO_PLAIN = re.compile(r"[\s\[\]{}#&*!|>%@`,?:'\"]|-(?!\d)|.*(?:: | #|\t|:$)")
_TYPED = re.compile(r"[-+]?\d[\d_.]*|\d{4}-\d\d?-\d\d?(?:[Tt ][\d:.+Zz -]*)?")
_SERVERS_OWN = re.compile(r"(?:^|_)(?:id|ts|number|date|time|at|timestamp)_?$|[a-z](?:Id|At)$")


_NAME = r"#?(\w[\w -]{0,39})"
_ITEM = re.compile(rf"- {_NAME}")
_NAMED = re.compile(rf"[ -]{{0,4}}(?:user|username|sender|from|author|recipient|channel|to|name): {_NAME}")


class _YamlList:
    """Records that a YAML writer has written as a list. A line that it would not write is a ``ValueError``.

    A text in such a list is indented or quoted, so its line breaks begin no field. Whoever prints values as
    they are quotes none: in each record a number or date of the server has to be quoted, because it is a
    text. And each record has the same fields.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.rstrip("\n").split("\n") if text.startswith("- ") else []
        self._at = 0

    def records(self) -> list[dict[str, Any]]:
        """Return the records."""
        found: list[dict[str, Any]] = []
        if not 0 < len(self._lines) <= MOST_LINES or max(map(len, self._lines)) > LONGEST_LINE:
            raise ValueError
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._lines[self._at] = "  " + line[2:]
            self._quotes = False
            record = self._mapping("  ") if line[:2] == "- " else {}
            if not record or not self._quotes or list(record) != list(found[0] if found else record):
                raise ValueError
            found.append(record)
        return found

    def _takes(self, start: str) -> str | None:
        """Return the rest of the next line, which is read, if it begins like this and not with a blank."""
        line = self._lines[self._at] if self._at < len(self._lines) else ""
        rest = line[len(start) :]
        if not rest or rest[0] == " " or not line.startswith(start):
            return None
        self._at += 1
        return rest

    def _mapping(self, indent: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._takes(indent)) is not None:
            field = _KEY.fullmatch(line)
            if field is None or field[1] in found or len(indent) > 2 * _DEEPEST_LIST:
                raise ValueError
            key, value = field[1], field[2]
            if value is not None:
                found[key] = self._scalar(value, indent + "  ")
                if value[0] in _OPEN and _SERVERS_OWN.search(key) and _TYPED.fullmatch(found[key]):
                    self._quotes = True
                continue
            items = []
            while (item := self._takes(indent + "- ")) is not None:
                items.append(self._scalar(item, indent + "  "))
            found[key] = items or self._mapping(indent + "  ")
            if not found[key]:
                raise ValueError
        return found

    def _scalar(self, value: str, indent: str) -> str | None:
        mark = value[0]
        if value in ("[]", "{}"):
            return None
        if mark not in _OPEN:
            parts = [value]
            while (part := self._takes(indent)) is not None:
                parts.append(part)
            value = " ".join(parts)
            if _NO_PLAIN.match(value):
                raise ValueError
            return value
        parts, value = [], value[1:]
        while not _CLOSED[mark].fullmatch(value):
            line = self._lines[self._at] if self._at < len(self._lines) else "-"
            if not _OPEN[mark].fullmatch(value) or (line and not line.startswith(indent)):
                raise ValueError
            parts.append(value)
            value = line[len(indent) :]
            self._at += 1
        value = "\n".join([*parts, value[:-1]])
        return value.replace("''", "'") if mark == "'" else unescaped(value)


_BLOCKS_OF_TEXT, _BLOCKS_OF_BYTES = ("text", "resource", "resource_link"), ("image", "audio", "video")

_DEEPEST_LIST = 2
"""Levels of fields in such a list: objects within a record, and no deeper."""


class _Parsed:
    """One result, taken apart. ``own`` are addresses of its reader.

    ``fields`` are by their values, ``text`` is all the rest, and ``prose`` is that without lines of names.
    """

    def __init__(self, text: KeptText, own: frozenset[str]) -> None:
        self.origin, self.own = text, own
        self.fields: dict[str, list[Field]] = {}
        self._texts: list[str] = []
        self._prose: list[str] = []
        self._keys = set(_IDENTITIES)
        self._count = 0
        self.whole = True
        """Whether all of it could be read: a picture may name anybody."""

        self._authors: tuple[tuple[str, ...], Literal["none", "self", "other"]] = ((), "none")
        self._sent = _SENT.search(text.tool) is not None
        try:
            found = msgspec.json.decode(text.body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self._add(unescaped(text.body.decode("utf-8", "ignore")))
        else:
            self._take_result(found)
            if not _is_all(text.body, found):
                self._add(unescaped(text.body.decode("utf-8", "ignore")))
        self._raw, whole = legible("\n".join(self._texts))
        self.whole = self.whole and whole
        self.text = folded(self._raw)
        is_prose = self._prose == self._texts
        self.prose = self.text if is_prose else folded(legible("\n".join(self._prose))[0])

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """Its text in the spellings in which an address can be hidden."""
        return tuple(_spellings(self.text, self._raw))

    def _add(self, text: str) -> None:
        self._texts.append(text)
        self._prose.append(text)

    def _add_lines(self, text: str) -> None:
        """Add a text of lines. One that is the field of a name can be forged, and names a member at most."""
        self._texts.append(text)
        lines = text.splitlines()
        if len(lines) > MOST_LINES:
            self._prose.append(text)
            return
        is_list = all(map(_ITEM.fullmatch, lines))
        for line in lines:
            if named := (_ITEM if is_list else _NAMED).fullmatch(line):
                field = Field("other", False, (), self.origin.source, self.origin.tool)
                self.fields.setdefault(folded(named[1]), []).append(field)
            else:
                self._prose.append(line)

    def _take_result(self, found: Any) -> None:
        if not isinstance(found, dict) or not isinstance(found.get("content"), list):
            self._walk(found, "", (), 0, listing=self.origin.listing)
            return
        structured = found.get("structuredContent")
        if structured is not None:
            self._walk(structured, "", (), 0, listing=self.origin.listing)
        rest = {key: each for key, each in found.items() if key not in ("content", "structuredContent")}
        self._walk(rest, "", (), 0, listing=False)
        for block in found["content"]:
            text = block.get("text") if isinstance(block, dict) else None
            if isinstance(block, dict):
                self.whole = self.whole and block.get("type") in _BLOCKS_OF_TEXT
                block = {key: each for key, each in block.items() if key not in ("type", "text")}
            if block or not isinstance(text, str):
                self._walk(block, "", (), 0, listing=False)
            if not isinstance(text, str):
                continue
            decoded_text: Any = None
            if text[:1] in "[{":
                with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
                    decoded_text = msgspec.json.decode(text)
                    if not _is_all(text.encode("utf-8", "replace"), decoded_text):
                        decoded_text = None
            if decoded_text is None and self.origin.listing:
                with contextlib.suppress(ValueError):
                    decoded_text = _YamlList(text).records()
            if decoded_text is None:
                (self._add_lines if self.origin.listing else self._add)(text)
            elif structured is None or decoded_text not in (structured, _only_value(structured)):
                self._walk(decoded_text, "", (), 0, listing=self.origin.listing)

    def _take_bytes(self, value: dict[str, Any]) -> None:
        """Add the text in a binary member of an object. If it is none, the object may have named anybody."""
        for key in ("blob", "data"):
            body = value.get(key)
            if key == "data" and value.get("type") in _BLOCKS_OF_BYTES:
                self.whole = False
            elif isinstance(body, str) and body and (key == "blob" or "mimeType" in value):
                try:
                    self._add(base64.b64decode(body).decode())
                except ValueError:
                    self.whole = False

    def _walk(self, value: Any, name: str, authors: tuple[str, ...], depth: int, *, listing: bool) -> None:
        self._count += 1
        if isinstance(value, dict | list) and (self._count > MOST_FIELDS or depth > 16):
            self._add(str(value)[:LONGEST_READ])
        elif isinstance(value, dict):
            if "blob" in value or "data" in value:
                self._take_bytes(value)
            named = tuple(
                folded(each)
                for key, given in value.items()
                if key.lower() in _AUTHORS
                for each in _strings(given)
            )
            authors = named or authors
            for key, each in value.items():
                lower = key.lower()
                if listing and name in _RELATIONS and len(key) <= _LONGEST_FIELD:
                    self._leaf(key, name, authors, listing=listing)  # what each of those may do
                elif key not in self._keys:
                    self._keys.add(key)
                    self._add(key)
                if isinstance(each, dict | list):
                    if listing and isinstance(each, dict) and lower not in _IDENTITIES:
                        self._note(key, name, authors)  # objects by name
                    inner = lower if lower in _IDENTITIES else name or lower
                    self._walk(each, inner, authors, depth + 1, listing=listing)
                else:
                    is_named = lower in _IDENTITIES or _NAMED_ID.search(key) is not None
                    within = name if lower in ("value", "address", "email", "id") and name else ""
                    self._leaf(each, within or (lower if is_named else ""), authors, listing=listing)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict | list):
                    self._walk(each, name, authors, depth + 1, listing=listing)
                else:
                    bare = not authors and depth < 2 and isinstance(each, str) and len(each) <= _LONGEST_NAME
                    kind = name if name in _IDENTITIES else "name" if bare else ""
                    self._leaf(each, kind, authors, listing=listing)
        else:
            self._leaf(value, "", authors, listing=listing)

    def _leaf(self, value: Any, kind: str, authors: tuple[str, ...], *, listing: bool) -> None:
        if isinstance(value, bool) or value is None:
            return
        text = value if isinstance(value, str) else number_text(value)
        if not listing or not kind or len(text) > _LONGEST_FIELD or "\n" in text:
            self._add(text)
            return
        words = text.count(" ")
        is_long = kind not in _RELATIONS and (len(text) > _LONGEST_NAME or words > 5)
        if is_long or words >= 5 + 3 * text.count(","):
            self._add(text)  # a name can hold an order
            return
        self._note(text, kind, authors)

    def _note(self, text: str, kind: str, authors: tuple[str, ...]) -> None:
        if authors is not self._authors[0]:
            own = all(each in _ME or not self.own.isdisjoint((each, *mails_in(each))) for each in authors)
            self._authors = authors, "self" if own or self._sent else "other"
        author = self._authors[1] if authors else "none"
        field = Field(author, kind in _RELATIONS, authors, self.origin.source, self.origin.tool)
        value = folded(text)
        self.fields.setdefault(value, []).append(field)
        for address in mails_in(value):
            if address != value:
                self.fields.setdefault(address, []).append(field)


def _is_all(body: bytes, found: Any) -> bool:
    """Return whether JSON says nothing else than what it was decoded to: no member was given twice."""
    return b"\\u0022" not in body and body.count(b'"') == msgspec.json.encode(found).count(b'"')


def _only_value(structured: Any) -> Any:
    """Return what a structured result holds under its only name, as servers wrap lists."""
    return next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            if isinstance(each, dict | str):
                yield from _strings(each)


# -- comparing ---------------------------------------------------------------------------------------

_NOT_ALNUM = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_ALNUM_OR_SPACE = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))
_SPOKEN = _words(
    "dot point period full stop at hyphen dash minus underscore slash colon plus followed by then and space"
)
_SPOKEN_UNSPACED = ("ドット", "アットマーク", "アット", "ハイフン", "点")
_TOKEN = re.compile(r"[A-Za-z0-9+/_-]{12,400}={0,2}")
_HEX_TO_H = bytes(104 if chr(byte) in "0123456789abcdefABCDEF" else 32 for byte in range(256))
_LEAST_HEX = 16
_HEX = re.compile(rb"[0-9a-fA-F]{16,}")
_MOST_TOKENS = 300
_NATO = (
    {"x": "x"}
    | {word: word[0] for word in SPELLING if word not in ("dot", "dash")}
    | {
        word: str(digit)
        for digit, word in enumerate(
            ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
        )
    }
)
_REPEATED = {"double": "<", "triple": "="}
_COMMON = _words(
    "gmail googlemail hotmail outlook yahoo icloud live proton protonmail mail email info support team "
    "office admin contact hello sales service help noreply reply news example test http https html www "
    "com net org github gitlab google docs drive slack discord index main home page user users file "
    "files document documents data report readme notes note text send message important meeting please "
    "your from with this that"
)
_ALNUM = re.compile(r"[^\W_]+")
_LOOKALIKES = (
    {
        code: plain[0]
        for code in itertools.chain(range(0xC0, 0x250), range(0x1E00, 0x1F00))
        if (plain := unicodedata.normalize("NFD", chr(code)))[0].isascii()
    }
    | {first + place: chr(97 + place) for first in (0x1F1E6, 0x1F150, 0x1F170) for place in range(26)}
    | str.maketrans(
        "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0501"
        "\u051b\u051d\u04bb\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131\u0261",
        "abekmhopctyxsijdqwhaeikvoptuxig",
    )
)
"""Letters with accents, of flags, and Cyrillic and Greek ones that look like Latin ones."""

_LOOKALIKE = re.compile("[\u00c0-\u058f\u1e00-\u1eff\U0001f150-\U0001f1ff]")
_LEAST_PATH, _LEAST_NAME = 6, 3
_LEAST_RUN = 8
"""Characters of an account that are looked for on their own: it may be given in parts."""


def compact(text: str) -> str:
    """Return the letters and digits of a folded text, without anything between them."""
    if text.isascii():
        return text.encode().translate(None, _NOT_ALNUM).decode()
    return "".join(_ALNUM.findall(text))


class TargetNaming(NamedTuple):
    """Where a target was named, if a person has to be asked about it. See :class:`JudgedTarget`."""

    naming: Literal["text", "record", "disguised", "nowhere"]
    source: str = ""
    tool: str = ""


class TrailNames:
    """The texts of trails, ready to be compared with targets. ``private`` are the private sources read.

    What ``earlier`` names have prepared is used again, because it takes time.
    """

    def __init__(
        self, texts: list[TrailTexts], private: frozenset[str], earlier: TrailNames | None = None
    ) -> None:
        prepared = earlier._prepared if earlier is not None else {}
        self._prepared: dict[int, tuple[KeptText, str | _Parsed]] = {}
        self.whole = all(each.whole for each in texts)
        echoes = all(each.echoes_known for each in texts)
        self.private = private
        self.budget = MOST_COMPARED
        """Characters that may still be compared for one call. Then a target is taken for a disguised one."""

        self._known: list[str] = []
        self._public: list[str] = []
        self._given: list[str] = []
        """What was given to a tool that changes something, before anything untrusted was read."""

        self._later: list[tuple[int, str, bool]] = []
        self._written: list[tuple[int, str]] = []
        others: list[tuple[int, KeptText]] = []
        own: set[str] = set()
        for number, text in enumerate(each for trail in texts for each in trail.kept):
            if text.role == "others":
                others.append((number, text))
                continue
            kept = prepared.get(id(text))
            if kept is not None and kept[0] is text and isinstance(kept[1], str):
                read = kept[1]
            else:
                read = folded(legible(text.body.decode("utf-8", "ignore"))[0])
            self._prepared[id(text)] = text, read
            if text.role == "written":
                self._written.append((number, read))
            elif text.role == "later":
                self._later.append((number, read, text.public or not echoes))
            else:
                (self._public if text.public else self._known).append(read)
                if text.role == "said" and text.acts:
                    self._given.append(read)
            if text.role == "own" and _SELF.search(text.tool):
                own.update(mails_in(read))
                own.update(re.findall(r"\b[a-z]{2}\d{2}[a-z0-9]{10,30}\b", read))
        self._own = frozenset(own)
        self._others: list[tuple[int, _Parsed]] = []
        self._is_ordered = len(texts) == 1
        for number, text in others:
            kept = prepared.get(id(text))
            parsed = kept[1] if kept is not None and kept[0] is text else None
            if not isinstance(parsed, _Parsed) or parsed.own != self._own:
                parsed = _Parsed(text, self._own)
            self._prepared[id(text)] = text, parsed
            self._others.append((number, parsed))
        self.whole = self.whole and all(other.whole for _, other in self._others)
        self._homes = {host.removeprefix("www."): text for _, text in others for host in text.homes}

    # -- known ---------------------------------------------------------------------------------------

    def knows(self, target: Target, *, deletes: bool, leaves: bool) -> bool:
        """Return whether the user's own words or sources named a target.

        What is deleted, booked or changed has to be named before anything untrusted was read.
        """
        value = target.name
        if deletes:
            return any(self._stands_in_own(value, [text]) for text in self._given)
        if target.kind not in ("address", "account", "host") and len(compact(value)) < _LEAST_NAME:
            return False  # it stands in nearly every text
        if target.kind in ("user", "channel", "value", "program"):
            # A client asks about all hotels of a list, and not because its user wants each of them.
            listed = self._stands_in_own(value, self._public) and any(
                _stands_in(value, other.text) for _, other in self._others
            )
            return not listed and self._has(value, later=leaves)
        if value in self._own:
            return True
        if target.kind != "host":
            if self._has(value) or self._stands_in_own(value, self._public):
                return True
            return target.kind in ("address", "account") and self._was_given_first(target, value)
        name = target.name
        host = name.partition("/")[0]
        if host in self._homes:
            return target.inside and self._has(name)  # a link to what the user had opened
        if self._has(name):
            return True
        if host == name or not self._has(host):
            return False
        # Many share a site: another address of it that a text of others names is theirs.
        owner, path = _owner_of(name), _telling_path(target)
        return self._has(owner) or not any(
            owner in other.text or (path and path in other.text) for _, other in self._others
        )

    def _has(self, value: str, *, later: bool = True) -> bool:
        if not value:
            return False
        if self._stands_in_own(value, self._known):
            return True
        for number, text, public in self._later if later else ():
            if not public and self._stands_in_own(value, [text]):
                bare = compact(value)
                return not any(
                    bare in compact(written) for place, written in self._written if place <= number
                )
        return False

    def _was_given_first(self, target: Target, value: str) -> bool:
        """Return whether a client gave it to a tool when no text of others had named it, so its user did."""
        number = next((place for place, text in self._written if self._stands_in_own(value, [text])), None)
        if number is None or not self._is_ordered or not self.whole:
            return False
        earlier = [each for each in self._others if each[0] < number]
        if any(value in other.text or any(value in each for each in other.fields) for _, other in earlier):
            return False
        return self._disguised(target, value, earlier) is None

    @staticmethod
    def _stands_in_own(value: str, texts: list[str]) -> bool:
        """Return whether a text names exactly this, and not something longer that holds it."""
        found = [text for text in texts if value in text]
        if not found:
            return False
        # A path within another one is something else, but not one behind the // of an address.
        before, after = (
            (r"(?<![\w@+~.-])(?<!(?<!/)/)", r"|/[\w*.~-]") if "/" in value else (r"(?<![\w@+-])", "")
        )
        pattern = re.compile(rf"{before}(?<!\w\.){re.escape(value)}(?![\w@-]|\.\w{after})")
        return any(map(pattern.search, found))

    # -- asked about ------------------------------------------------------------------------------------

    def find(
        self, target: Target, sink: str, *, deletes: bool, leaves: bool, clean: bool
    ) -> TargetNaming | None:
        """Return where a target was named that is not known; None if it may pass.

        ``sink`` is the server of the call. ``deletes``: it is to be deleted. ``leaves``: the call sends
        something away. ``clean``: its texts hold no address that is asked about.
        """
        value, names = target.name, target.spellings
        if deletes and not target.inside and ("*" in value or not compact(value)):
            return TargetNaming("nowhere")  # more than anybody has named
        fields = [
            field for name in names for _, other in self._others for field in other.fields.get(name, ())
        ]
        if not leaves and self._stands_in_own(value, [text for _, text, _ in self._later]):
            return TargetNaming("nowhere")  # it was looked up afterwards: a text of others may describe it
        answers = target.kind == "id" and leaves and fields and not (deletes or target.inside)
        if (
            answers
            and self._asked_field(target, fields, sink, deletes=False, leaves=True, clean=clean) is None
        ):
            return None  # to somebody whom the user named, whatever else names the mail
        if target.kind in ("id", "value", "path", "user") or (not leaves and target.kind == "channel"):
            is_name = target.kind in ("user", "channel")
            for _, other in self._others:  # whoever praises a hotel may want it to be booked
                text = other.prose if is_name else other.text
                if not target.inside and any(_stands_in(name, text) for name in names):
                    return TargetNaming("text", other.origin.source, other.origin.tool)
        if fields and not target.inside:
            asked = self._asked_field(target, fields, sink, deletes=deletes, leaves=leaves, clean=clean)
            return TargetNaming("record", asked.source, asked.tool) if asked is not None else None
        if any(map(_is_own, fields)):
            return None
        site = _site_of(target)
        shared = [_telling_path(target), "" if site or target.kind != "host" else _owner_of(target.name)]
        shared = [each for each in shared if each and each != target.name.partition("/")[0]]
        if target.kind == "host" and (home := self._homes.get(target.name.partition("/")[0])) is not None:
            return TargetNaming("record", home.source, home.tool)
        for _, other in self._others:
            if any(_stands_in(name, other.text) for name in (*names, *shared)) or (
                site and site.search(other.text)
            ):
                return TargetNaming("text", other.origin.source, other.origin.tool)
        if fields:
            return (
                None if target.kind == "address" else TargetNaming("record", fields[0].source, fields[0].tool)
            )
        if (hidden := self._disguised(target, value, self._others)) is not None:
            return TargetNaming("disguised", hidden.source, hidden.tool)
        return None if self.whole or target.inside else TargetNaming("nowhere")

    def _asked_field(
        self, target: Target, fields: list[Field], sink: str, *, deletes: bool, leaves: bool, clean: bool
    ) -> Field | None:
        """Return the field because of which a target is asked about; None if it may pass."""
        if deletes:
            return fields[0]
        if target.kind == "id":  # an answer goes to the author
            known = leaves and all(field.authors and self._knows_author(field.authors) for field in fields)
            return None if known else fields[0]
        if target.kind in ("user", "channel"):
            if not leaves:
                return next((field for field in fields if field.author == "other"), None)
            inner = all(field.source == sink for field in fields) and not self.private - {sink}
            return None if inner and clean else fields[0]
        if target.kind in ("value", "path"):
            return fields[0] if leaves else next((each for each in fields if each.author == "other"), None)
        return None if any(map(_is_own, fields)) else fields[0]

    def _knows_author(self, authors: tuple[str, ...]) -> bool:
        """Return whether the user named the author of a record: by each of its addresses, if it has any."""
        return all(map(self._has, mails_in(" ".join(authors)) or authors))

    def _disguised(
        self, target: Target, value: str, others: Sequence[tuple[int, _Parsed]]
    ) -> KeptText | None:
        """Return the text of others that names a target in other words; None if none does."""
        bare = compact(target.name if target.kind == "host" else value)
        if len(bare) < 4:
            return None
        turned = {bare, bare[::-1], codecs.encode(bare, "rot13")}
        if target.kind == "account" and len(bare) > _LEAST_RUN:
            turned |= {bare[start : start + _LEAST_RUN] for start in range(len(bare) - _LEAST_RUN + 1)}
        parts = () if target.inside else _telling_parts(target, value)
        for _, other in others:
            self.budget -= len(turned) * sum(map(len, other.spellings))
            if self.budget < 0 or any(each in spelling for spelling in other.spellings for each in turned):
                return other.origin
        # A name such as lock.front is one word of a machine for several of a person.
        enough = any if target.kind in ("value", "id") and " " not in value else all
        for _, other in others if parts else ():
            if enough(_stands_in(part, other.text) for part in parts):
                return other.origin
        return None


def _site_of(target: Target) -> re.Pattern[str] | None:
    """Return what finds the site of an address within a text: a path may carry something there.

    None if it is no address, or one of a site that many share.
    """
    host = re.sub(r":\d+$", "", target.name.partition("/")[0])
    if target.kind != "host" or is_known_site(host):
        return None
    return re.compile(rf"(?<![\w@.-])(?:www\.)?{re.escape(host)}(?![\w-]|\.\w)")


def _owner_of(name: str) -> str:
    """Return an address up to the first part of its path, which is an account on sites that many share."""
    return "/".join(name.split("/", 2)[:2])


def _telling_path(target: Target) -> str:
    """Return the path of an address if it says who is meant, also without its site; empty if not."""
    path = target.name.partition("/")[2]
    is_telling = target.kind == "host" and len(path) >= _LEAST_PATH and re.search(r"[/\d_]", path)
    return path if is_telling else ""


def _is_own(field: Field) -> bool:
    """Return whether a field names somebody whom its reader has to do with, and nobody else wrote it."""
    return field.author == "self" or (field.author == "none" and field.relates)


def _stands_in(value: str, text: str) -> bool:
    """Return whether a text names a value; a short one as a word of its own."""
    if value not in text:
        return False
    if len(value) > 8:
        return True
    return re.search(rf"(?<![^\W_]){re.escape(value)}(?![^\W_])", text) is not None


def _telling_parts(target: Target, value: str) -> tuple[str, ...]:
    """Return the parts of a target that name it if a text has all of them."""
    if target.kind == "address":
        local, _, domain = value.partition("@")
        owner = domain.rpartition(".")[0].rpartition(".")[2]
        parts = tuple(word for word in _ALNUM.findall(local) if len(word) > 2)
        return (owner, *parts) if owner not in _COMMON or any(len(part) > 3 for part in parts) else ()
    if target.kind == "host":
        words = [target.name.partition("/")[0].rpartition(".")[0].rpartition(".")[2]]
    elif target.kind == "path":
        words = [value.rpartition("/")[2]]
    elif target.kind in ("value", "id", "program"):
        words = _ALNUM.findall(value)
    else:
        return ()
    parts = tuple(word for word in words if len(word) > 2 and word not in _COMMON)
    return parts if any(len(part) > 3 for part in parts) else ()


def _spellings(text: str, raw: str) -> Iterator[str]:
    """Yield the letters and digits of a text, read in each way that hides an address."""
    ascii_words = text.encode().translate(_ALNUM_OR_SPACE).decode().split() if text.isascii() else None
    words = ascii_words if ascii_words is not None else _ALNUM.findall(text)
    yield "".join(words)
    spoken = "".join([word for word in words if word not in _SPOKEN])
    if not text.isascii():
        for term in _SPOKEN_UNSPACED:
            spoken = spoken.replace(term, "")
    yield spoken
    if not text.isascii() and _LOOKALIKE.search(text):
        yield compact(text.translate(_LOOKALIKES))
    if len(_NATO.keys() & words) > 2:
        spelled = [_NATO.get(word, _REPEATED.get(word, "")) for word in words]
        yield re.sub(r"([<=])(.)", lambda found: found[2] * (2 if found[1] == "<" else 3), "".join(spelled))
    decoded = list(_decoded(raw))
    if decoded:
        yield " ".join(decoded)


def _decoded(raw: str) -> Iterator[str]:
    """Yield what encoded pieces of a text mean, without what stands between letters and digits."""
    for count, found in enumerate(_TOKEN.finditer(raw)):
        if count >= _MOST_TOKENS:
            return
        token = found[0]
        if token.isalpha() and (token.islower() or token[1:].islower()):
            continue
        alone = token.isupper() and not token[0].isdigit()  # base32 has capitals alone
        for decode in (base64.urlsafe_b64decode, base64.b32decode)[: 2 if alone else 1]:
            body = token.rstrip("=").replace("+", "-").replace("/", "_")
            with contextlib.suppress(ValueError):
                yield compact(
                    folded(
                        decode(
                            body + "=" * (-len(body) % 8 if decode is base64.b32decode else -len(body) % 4)
                        ).decode()
                    )
                )
    # Pairs may stand apart, and a stray letter may come before them.
    joined = raw.encode("utf-8", "replace").replace(b"0x", b"").translate(None, b" ,:%\\x")
    runs = _HEX.findall(joined) if b"h" * _LEAST_HEX in joined.translate(_HEX_TO_H) else []
    for start in (0, 1) if runs else ():
        pairs = b"20".join([run[start : len(run) - (len(run) - start) % 2] for run in runs])
        yield compact(folded(bytes.fromhex(pairs.decode()).decode("utf-8", "ignore")))
