"""Arguments of a call, field by field, for the person who decides about it: recipients first. Pure.

An assistant wrote them, and may have been told to by somebody else. So the name of each field is the one that
is sent, a title and a description are only what the server says of it, nothing in a text is hidden, and a
field that is given twice is shown twice: servers differ in which of the two they take. What is shown has a
budget, which no long text takes from a recipient. What it leaves out is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tabane.guard.scanner.lookalikes import skeleton
from tabane.messages import Message, say
from tabane.text.control_characters import shown_controls
from tabane.text.secret_values import HIDDEN

FieldKind = Literal["text", "long", "value", "link", "mail", "secret"]
"""How a value is shown."""

FieldRole = Literal["recipient", "object", "title", "other", "body"]
"""Fields in the order in which they are shown. ``object``: what something is done to, such as a path or an
amount. ``body``: a text that is long, or has several lines."""

LONG = 200
"""Characters from which on a text gets a box of its own; one of several lines always does."""

LONGEST_NAME, LONGEST_SAID = 120, 400
"""Characters of a field's name, and of what the server says of it."""

MOST_DEPTH = 6
"""Levels of fields. What is nested deeper is shown as JSON."""

MOST_WORDS = 200
"""Characters of a path in which its names are looked for."""

MOST_RANKED = 1_000
"""Fields whose place is found by their names. Further ones are the last, and few of them are shown."""

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200e\u200f\u2028\u2029\u2800\u3164\uffa0\ufff9-\ufffb"
    "\U000e0100-\U000e01ef]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
"""Blank or invisible characters that :func:`shown_controls` leaves, because they do nothing to a terminal."""

ESCAPE = re.compile("(\u27e8U\\+[0-9A-F]{4,6}\u27e9)")
"""Finds the escapes of such characters, such as ``⟨U+202E⟩``."""

_LINK = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_MAIL = re.compile(r"[^\s@<>]{1,100}@[^\s@<>]{1,200}\.[^\s@<>.]{2,60}")


class Budget(NamedTuple):
    """Limits: characters of all values together, number of fields, and characters of one value."""

    characters: int
    fields: int
    longest: int = 1 << 30


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object as they were written, also those that are given twice."""

    __slots__ = ()


class _Written(str):
    """A number as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ShownField:
    """One field. ``name`` is its path among all fields, such as ``message.to.1``.

    ``parts`` are its text: each second one is the escape of a character that nobody sees. ``title`` and
    ``said`` are the server's words about it, and ``notes`` ours. ``cut`` is the number of characters that are
    not shown, and ``size`` of all.
    """

    name: str
    role: FieldRole
    kind: FieldKind
    parts: tuple[str, ...] = ()
    title: str = ""
    said: str = ""
    notes: tuple[Message, ...] = ()
    size: int = 0
    cut: int = 0
    twice: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True)
class ShownArguments:
    """Fields of arguments. ``raw`` are the parts of their text if they are no JSON object.

    ``cut`` characters and ``more`` fields are not shown. ``hidden``: they hold characters that nobody sees.
    ``twice``: a field is given twice. ``lookalike``: an address in them looks like another one.
    """

    fields: tuple[ShownField, ...] = ()
    raw: tuple[str, ...] = ()
    cut: int = 0
    more: int = 0
    hidden: bool = False
    twice: bool = False
    lookalike: bool = False

    @property
    def whole(self) -> bool:
        """Whether everything is shown."""
        return not self.cut and not self.more


def shown_arguments(
    text: str,
    schema: object,
    budget: Budget,
    role_of: RoleOfName,
    recipients: frozenset[str] = frozenset(),
) -> ShownArguments:
    """Return arguments (JSON) as fields, with what the input schema of the tool says of them.

    ``recipients`` are parameters that are known to say who gets it, whatever their names look like.
    """
    with suppress(ValueError, RecursionError):  # then they are shown as they are written
        value = _read(text)
        if type(value) is str:  # the beginning of long arguments, or what is nested very deep
            text = value
            value = _read_beginning(text)
        if isinstance(value, _Members):
            shown = _Fields(budget)
            shown.add(value, schema, role_of, recipients)
            twice = _gives_twice(value)
            return ShownArguments(
                tuple(shown.rows), (), shown.cut, shown.more, shown.hidden, twice, shown.lookalike
            )
    most = min(budget.characters, budget.longest)
    parts, hidden = visible_parts(text[:most])
    return ShownArguments(raw=parts, cut=max(0, len(text) - most), hidden=hidden)


def _read(text: str) -> Any:
    return json.loads(
        text, object_pairs_hook=_Members, parse_int=_Written, parse_float=_Written, parse_constant=_Written
    )


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?P<end>"?)|[\[\]{}]', re.DOTALL)
"""A string or a bracket. A string without an end takes all of the rest: no text is read twice."""


def _read_beginning(text: str) -> Any:
    """Return the value that JSON begins, without what is not complete at its end. Raises ValueError."""
    open_ones: list[str] = []
    end = 0
    for found in _TOKEN.finditer(text):
        if found["end"] == "":  # a string that is cut off
            break
        end = found.end()
        if found[0] in ("{", "["):
            open_ones.append("}" if found[0] == "{" else "]")
        elif found[0] in ("}", "]") and open_ones:
            open_ones.pop()
    rest = text[end:]
    quoted = rest.find('"')
    closing = "".join(reversed(open_ones))
    if quoted >= 0:  # it ends in a string: without the part of an escape at the end
        ends = [re.sub(r"\\(?:u[0-9a-fA-F]{0,3})?$", "", text) + '"', text[: end + quoted].rstrip(" ,:")]
    else:
        ends = [text, text.rstrip(" ,:"), text[:end]]
    for cut in ends:
        for more in ("", ":null", "null"):
            try:
                return _read(cut + more + closing)
            except ValueError:
                continue
    raise ValueError


def visible_parts(text: str) -> tuple[tuple[str, ...], bool]:
    """Return a text in parts, each second one an escape such as ``⟨U+202E⟩``; and whether there is one."""
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):  # half of a pair, maybe
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    shown = shown_controls(text)
    if not text.isascii():
        shown = _UNSEEN.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", shown)
    if shown == text:  # also if it spells such an escape itself, which then hides nothing
        return (text,), False
    return tuple(ESCAPE.split(shown)), True


class _Leaf(NamedTuple):
    name: str
    text: str
    role: FieldRole
    kind: FieldKind
    about: Mapping[str, Any]
    twice: bool


_ORDER: Mapping[FieldRole, int] = {"recipient": 0, "object": 1, "title": 2, "other": 3, "body": 4}


class _Fields:
    """Collects the fields of arguments until the budget is spent. There is no recursion."""

    def __init__(self, budget: Budget) -> None:
        self.rows: list[ShownField] = []
        self.cut = self.more = 0
        self.hidden = self.lookalike = False
        self._left, self._most, self._longest = budget

    def add(self, value: _Members, schema: object, role_of: RoleOfName, recipients: frozenset[str]) -> None:
        """Add the members of an object, and of those in it: the most important ones first."""
        leaves = sorted(_leaves(value, schema, role_of, recipients), key=lambda leaf: _ORDER[leaf.role])
        self.more = max(0, len(leaves) - self._most)
        for leaf in leaves[: self._most]:
            shown = leaf.text[: max(0, min(self._left, self._longest))]
            self._left -= len(shown)
            cut = len(leaf.text) - len(shown)
            self.cut += cut
            parts, hidden = visible_parts(shown)
            name = leaf.name[:LONGEST_NAME] + ("…" if len(leaf.name) > LONGEST_NAME else "")
            label, odd = visible_parts(name)
            self.hidden = self.hidden or hidden or odd
            own = leaf.name.rpartition(".")[2]
            title, said = (
                _said(leaf.about.get(key), longest)
                for key, longest in (("title", 120), ("description", LONGEST_SAID))
            )
            forms = address_forms(shown) if leaf.kind != "secret" else ()
            self.lookalike = self.lookalike or any(form.like for form in forms)
            self.rows.append(
                ShownField(
                    "".join(label), leaf.role, leaf.kind, parts, title if title != own else "", said,
                    (*(form.note for form in forms), *_other_ends(leaf, cut)), len(leaf.text), cut,
                    leaf.twice,
                )
            )  # fmt: skip


def _leaves(value: _Members, schema: object, role_of: RoleOfName, recipients: frozenset[str]) -> list[_Leaf]:
    """Return the fields that have no fields in them, in the order in which they were written."""
    found: list[_Leaf] = []
    waiting = [(name, part, "", 0, schema, twice) for name, part, twice in reversed(_named(value))]
    while waiting:
        name, part, start, depth, of, twice = waiting.pop()
        about = _about(of, name)
        written = json.dumps(name, ensure_ascii=False) if "." in name else name
        path = f"{start}.{written}" if start else written
        inner = _inner(part) if depth + 1 < MOST_DEPTH else []
        if inner:
            items = about.get("items") if isinstance(part, list) else None
            below = {"properties": dict.fromkeys([each[0] for each in inner], items)} if items else about
            waiting += [
                (key, one, path, depth + 1, below, again or twice) for key, one, again in reversed(inner)
            ]
            continue
        text = _written(part)
        kind = _kind(text, is_text=type(part) is str)
        role = _role(path, part, kind, role_of, recipients) if len(found) < MOST_RANKED else "body"
        found.append(_Leaf(path, text, role, kind, about, twice))
    return found


# -- what a field is for ---------------------------------------------------------------------------

_AMOUNTS = frozenset(["amount", "price", "total", "sum", "currency", "金額", "합계", "金额"])
_TITLES = frozenset(
    [
        "subject",
        "title",
        "headline",
        "heading",
        "topic",
        "summary",
        "件名",
        "題名",
        "タイトル",
        "主题",
        "제목",
    ]
)

RoleOfName = Callable[[str], str]
"""Returns what a parameter is for, by its name: recipient, place, object, content, value or option."""


def _role(
    path: str, value: object, kind: FieldKind, role_of: RoleOfName, recipients: frozenset[str]
) -> FieldRole:
    """Return what a field is for, by its name, those of the fields around it, and its value."""
    names = [each for each in path[-MOST_WORDS:].split(".") if each and not each.isdigit()]
    roles = [role_of(each) for each in names]
    if roles and roles[-1] == "option":
        return "body" if kind == "long" else "other"
    first = value[0] if isinstance(value, list) and value else value
    is_address = type(first) is str and (_MAIL.fullmatch(first) or _LINK.fullmatch(first))
    is_known = kind != "long" and roles[-1:] != ["content"] and not recipients.isdisjoint(names)
    if is_address or is_known or "recipient" in roles or "place" in roles:
        return "recipient"
    if kind == "long":
        return "body"
    own = names[-1].lower() if names else ""
    if roles[-1:] == ["object"] or own in _AMOUNTS:
        return "object"
    return "title" if own in _TITLES else "other"


# -- addresses that are not what they look like ----------------------------------------------------


class AddressForm(NamedTuple):
    """An address that has another form: ``note`` says which, and ``like`` is what it looks like."""

    note: Message
    like: str


LONGEST_LOOKED_AT = 4_000
"""Characters of a value in which addresses are looked for."""

MOST_FORMS, LONGEST_FORM = 3, 80
"""Addresses of a value of which another form is shown, and characters of each form."""

_TOKEN_OF_ADDRESS = re.compile(r"[^\s<>\"'(),;|]{4,300}")
_HOST_OF_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}://)?(?:([^/?#\\]*)@)?([^/?#:@\\]+)", re.IGNORECASE)
_HOST = re.compile(r"[^\W_][\w-]{0,62}(?:\.[\w-]{1,63}){1,9}\.?")


def address_forms(text: str) -> tuple[AddressForm, ...]:
    """Return the other forms of addresses whose host is not in ASCII, or that look like another one."""
    looked_at = text[:LONGEST_LOOKED_AT]
    if not _may_deceive(looked_at):
        return ()
    found: list[AddressForm] = []
    for token in _TOKEN_OF_ADDRESS.finditer(looked_at):
        form = _form_of(token[0])
        if form is not None and form not in found:
            found.append(form)
            if len(found) >= MOST_FORMS:
                break
    return tuple(found)


def _other_ends(leaf: _Leaf, cut: int) -> Iterator[Message]:
    """Yield what decides who gets it, and is not where a reader looks: a cut end, an address after a name."""
    if leaf.role != "recipient" or leaf.kind == "secret":
        return
    if cut:
        end = " ".join(leaf.text[-LONGEST_FORM:].split())
        yield say("It ends with {end}", end=json.dumps("".join(visible_parts(end)[0]), ensure_ascii=False))
    elif (named := _NAMED_MAIL.fullmatch(leaf.text)) is not None:
        yield say("The address is {address}, not the name before it.", address=_beginning(named[1]))


_NAMED_MAIL = re.compile(r"[^<>]{0,300}@[^<>]{0,300}<([\w.+%-]{1,64}@[A-Za-z0-9.-]{1,200})>", re.DOTALL)
"""A mail address after a name that looks like one."""


def _may_deceive(text: str) -> bool:
    return not text.isascii() or "xn--" in text.lower() or ("://" in text and "@" in text)


def _form_of(token: str) -> AddressForm | None:
    if not _may_deceive(token):
        return None
    parts = _HOST_OF_ADDRESS.match(token)
    if parts is None or _HOST.fullmatch(parts[2]) is None:
        return None
    written, local = parts[2], parts[1] or ""
    if local and "://" in token:
        note = say(
            "The host of {address} is {host}: what is before the @ is only a user name.",
            address=_beginning("".join(visible_parts(token)[0])),
            host=_beginning("".join(visible_parts(written)[0])),
        )
        return AddressForm(note, local)
    other = _decoded_host(written) if written.isascii() else _ascii_host(written)
    unicode = other if written.isascii() else written
    seen = f"{local}@{unicode}" if local else unicode
    like = skeleton(seen)
    is_like = like.isascii() and not seen.isascii() and like != (f"{local}@{other}" if local else other)
    written, other, like = (_beginning("".join(visible_parts(each)[0])) for each in (written, other, like))
    if is_like:
        shown = "".join(
            each if each.isascii() else f"\u27e8U+{ord(each):04X}\u27e9" for each in _beginning(seen)
        )
        note = say(
            "{address} is not {like}, although it looks like it: its host is {host}.",
            address=shown, like=like, host=written if written.isascii() else other,
        )  # fmt: skip
        return AddressForm(note, like)
    if other == written:
        return None
    return AddressForm(say("The host {host} can also be written {other}.", host=written, other=other), "")


def _beginning(address: str) -> str:
    return address if len(address) <= LONGEST_FORM else f"{address[:LONGEST_FORM]}..."


def _ascii_host(host: str) -> str:
    """Return a host as it is looked up: ``xn--wgv71a119e.jp``."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:  # not a name that a registry has, but a server may take it
        labels = host.lower().split(".")
        return ".".join(
            each if each.isascii() else "xn--" + each.encode("punycode").decode() for each in labels
        )


def _decoded_host(host: str) -> str:
    """Return a host as a browser may show it: ``日本語.jp``."""
    labels = []
    for label in host.lower().split("."):
        try:
            labels.append(label[4:].encode().decode("punycode") if label.startswith("xn--") else label)
        except (UnicodeError, ValueError, OverflowError):
            labels.append(label)
    return ".".join(labels)


# -- values ----------------------------------------------------------------------------------------


def _named(value: _Members) -> list[tuple[str, Any, bool]]:
    """Return members with whether their name is given several times."""
    counts: dict[str, int] = {}
    for name, _ in value:
        counts[name] = counts.get(name, 0) + 1
    return [(name, part, counts[name] > 1) for name, part in value]


def _inner(value: object) -> list[tuple[str, Any, bool]]:
    """Return the fields inside a value: the members of an object, or the items of a list that has objects."""
    if isinstance(value, _Members):
        return _named(value)
    if isinstance(value, list) and any(isinstance(each, _Members | list) or _is_long(each) for each in value):
        return [(str(number), each, False) for number, each in enumerate(value, 1)]
    return []


def _is_long(value: object) -> bool:
    return type(value) is str and (len(value) > LONG or "\n" in value)


def _written(value: object) -> str:
    """Return a value as text: a string as it is, several with commas or one a line, the rest as JSON."""
    if isinstance(value, str):  # also a number as it was written
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return ("\n" if any("," in each for each in value) else ", ").join(value)
    return _as_json(value)


def _as_json(value: object) -> str:
    """Return a value as JSON, its numbers as they were written, and each field as often as it is given.

    It is at most as deep as what was read.
    """
    if isinstance(value, _Members):
        return "{" + ", ".join(f"{_as_json(name)}: {_as_json(part)}" for name, part in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_json, value)) + "]"
    return value if isinstance(value, _Written) else json.dumps(value, ensure_ascii=False)


def _gives_twice(value: object) -> bool:
    """Return whether a field is given twice anywhere in a value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Members):
            if len({name for name, _ in part}) < len(part):
                return True
            waiting += [each for _, each in part]
        elif isinstance(part, list):
            waiting += part
    return False


def _kind(text: str, *, is_text: bool) -> FieldKind:
    if text == HIDDEN:
        return "secret"
    if _is_long(text):
        return "long"
    if not is_text:
        return "value"
    if _LINK.fullmatch(text):
        return "link"
    return "mail" if _MAIL.fullmatch(text) else "text"


def _about(schema: object, name: str) -> Mapping[str, Any]:
    """Return what a schema says of a member; nothing if it says nothing that can be read."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    about = properties.get(name) if isinstance(properties, dict) else None
    return about if isinstance(about, dict) else {}


def _said(value: object, longest: int) -> str:
    """Return words of a server on one line."""
    if not isinstance(value, str):
        return ""
    line = " ".join(value[: longest + 1].split())
    return "".join(visible_parts(line[:longest] + ("…" if len(line) > longest else ""))[0])
