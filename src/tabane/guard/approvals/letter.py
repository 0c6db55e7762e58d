"""An approval as a letter to the person who decides, the same in a terminal, a dialog and on a page. Pure.

It says what would happen, with what, what was read before, what was decided earlier, and what each answer
does. Somebody else may have written the values, to deceive its reader. So no value, name or client can look
like a part of the letter: in a sentence, what is not a plain word is left out or quoted. In
:func:`letter_text`, each line of arguments is indented by four columns, which Markdown shows as it is, each
line of a longer value has a bar before it, and none is longer than the text is wide, so that nothing wraps to
the margin.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from tabane.guard.approvals.approvals import Approval, ApprovalReason, ApprovalTrail
from tabane.guard.approvals.argument_fields import (
    Budget,
    FieldRole,
    RoleOfName,
    ShownArguments,
    ShownField,
    shown_arguments,
    visible_parts,
)
from tabane.messages import Lang, Message, say
from tabane.operations.door import JudgedTarget
from tabane.text.secret_values import HIDDEN
from tabane.text.units import duration_text

WHOLE = Budget(100_000, 400)
IN_LIST = Budget(6_000, 40, 3_000)
IN_DIALOG = Budget(1_000, 16, 240)
"""Limits of a letter that stands alone, of one in a list, and of one in the dialog of a client."""

LONGEST_NAME = 120
LONGEST_FOLDER = 400
LONGEST_REASON = 2_000

MOST_NAMED = 3
"""Recipients that the first sentence names."""

MOST_TARGETS = 4
"""Targets of which the letter says where they were named."""

MOST_ALLOWED = 8
"""Targets that are named as allowed from now on."""

REACHED = ("address", "host", "account", "channel", "user")
"""Kinds of targets that get what is sent."""

MOST_SOURCES = 8
MOST_CHANGED = 8


class EarlierDecisions(NamedTuple):
    """Decisions about calls of the same tool. ``last`` and ``last_approved`` are seconds since 1970.

    ``changed`` are the fields that differ from the call that was approved last; None if that is not known.
    """

    approved: int = 0
    refused: int = 0
    last: float | None = None
    last_approved: float | None = None
    changed: Sequence[str] | None = None


class LetterField(Struct, frozen=True):
    """One field of the arguments, recipients first. See :class:`ShownField`.

    ``unseen``: the value has escapes, such as ``⟨U+202E⟩``, of characters that nobody would see. The ``kind``
    of arguments that are no object is ``raw``.
    """

    name: str
    value: str
    role: FieldRole
    kind: str
    notes: tuple[str, ...] = ()
    title: str = ""
    said: str = ""
    size: int = 0
    cut: int = 0
    twice: bool = False
    unseen: bool = False


class Letter(Struct, frozen=True):
    """A letter, in the language of its reader.

    ``sentence`` says what would happen. ``against`` is what speaks against it, and ``reasons`` why a person
    is asked. ``cut`` characters and ``more`` fields are not shown, and ``lost``: there are more that were
    not even kept. ``approve``, ``remember`` and ``refuse`` say what these answers do; if ``remember`` is
    empty, nothing can be remembered.
    """

    sentence: str
    against: tuple[str, ...]
    reasons: tuple[str, ...]
    fields: tuple[LetterField, ...]
    cut: int
    more: int
    lost: bool
    whole: bool
    read: tuple[str, ...]
    earlier: tuple[str, ...]
    who: tuple[str, ...]
    approve: str
    remember: tuple[str, ...]
    refuse: str


TITLES: Mapping[str, Message] = {
    "fields": say("What it is given"),
    "read": say("What was read before"),
    "earlier": say("Earlier decisions about this tool"),
    "who": say("Who asks"),
    "answers": say("What your answer does"),
}


def letter_of(
    approval: Approval,
    earlier: EarlierDecisions,
    lang: Lang,
    budget: Budget,
    now: float,
    role_of: RoleOfName,
    schema: object = None,
) -> Letter:
    """Return the letter of an approval. ``now`` is in seconds since 1970.

    ``schema`` is that of the tool, whose words about its parameters are added. Time is in proportion to the
    arguments, of which up to 128 KiB are kept.
    """
    reached = frozenset(target.parameter for target in approval.targets if target.kind in REACHED)
    shown = shown_arguments(approval.arguments, schema, budget, role_of, reached)
    reasons = [_reason(approval, each, lang) for each in approval.reasons if not each.is_warning]
    against = [_reason(approval, each, lang) for each in approval.reasons if each.is_warning]
    if not _fetches(approval):  # the reason says it of an address that is read
        against += [_named_before(target) for target in approval.targets[:MOST_TARGETS]]
    against += _objections(shown)
    nothing = approval.arguments.strip() in ("", "{}")
    fields = [_field(each, lang) for each in shown.fields]
    if shown.raw and not nothing:
        raw = "".join(shown.raw)
        fields = [LetterField("", raw, "body", "raw", size=len(raw), cut=shown.cut, unseen=shown.hidden)]
    return Letter(
        sentence=_sentence(approval, shown).render(lang),
        against=tuple(each.render(lang) for each in against),
        reasons=tuple(each.render(lang) for each in reasons),
        fields=tuple(fields),
        cut=shown.cut,
        more=shown.more,
        lost=approval.arguments_size > 0,
        whole=shown.whole and not approval.arguments_size,
        read=tuple(each.render(lang) for each in _read(approval.trail)),
        earlier=tuple(each.render(lang) for each in _earlier(earlier, shown, now)),
        who=tuple(each.render(lang) for each in _who(approval)),
        approve=say("Approve: the call is made once, with exactly these values.").render(lang),
        remember=tuple(each.render(lang) for each in _remembered(approval)),
        refuse=say("Refuse: it is not made, and the same call is refused for ten minutes.").render(lang),
    )


def _field(field: ShownField, lang: Lang) -> LetterField:
    return LetterField(
        field.name, field.text, field.role, field.kind, tuple(note.render(lang) for note in field.notes),
        field.title, field.said, field.size, field.cut, field.twice, len(field.parts) > 1,
    )  # fmt: skip


# -- what would happen -----------------------------------------------------------------------------

_PLAIN = re.compile(r"(?:\*@)?[A-Za-z0-9@#/~+\-\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
                    r"[A-Za-z0-9_@.:/~?=&%+#,\-\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{0,79}")  # fmt: skip
"""A value that can be read as nothing else in a sentence, and runs from left to right."""


def _sentence(approval: Approval, shown: ShownArguments) -> Message:
    """Return what the call would do, to whom."""
    labels, server = set(approval.labels), approval.binding.server
    own = approval.binding.tool.removeprefix(f"{server}__") if server else approval.binding.tool
    tool = {"tool": say("{tool} of {server!n}", tool=_name(own), server=server or "Tabane")}
    targets = _named([each for each in shown.fields if each.role == "recipient"], say("those named below"))
    objects = _named(
        [each for each in shown.fields if each.role in ("recipient", "object")], say("what is named below")
    )
    if _fetches(approval) and targets:
        return say("{tool} will request {targets}.", **tool, targets=targets)
    if "external" in labels and targets:
        return say("{tool} will send this to {targets}.", **tool, targets=targets)
    if "destructive" in labels and objects:
        return say("{tool} will be called for {targets}. That cannot be undone.", **tool, targets=objects)
    if "external" in labels:
        return say("{tool} will send this out of this machine.", **tool)
    if "destructive" in labels:
        return say("{tool} will do something that cannot be undone.", **tool)
    if objects:
        return say("{tool} will be called for {targets}.", **tool, targets=objects)
    return say("{tool} will be called.", **tool)


def _fetches(approval: Approval) -> bool:
    """Return whether a call reads what is at an address, and sends nothing else there."""
    labels = set(approval.labels)
    return {"external", "untrusted"} <= labels and "destructive" not in labels


def _named(fields: Sequence[ShownField], below: Message) -> Message | None:
    """Return the values of fields in a sentence; ``below`` if one does not belong there, None without any."""
    values = [
        value
        for field in fields
        if field.kind != "secret"
        for value in (field.text.split(", ") if field.kind == "value" else [field.text])
        if value
    ]
    if not values:
        return None
    if any(field.notes or field.cut for field in fields) or not all(map(_PLAIN.fullmatch, values)):
        return below
    rest, named = len(values) - MOST_NAMED, ", ".join(values[:MOST_NAMED])
    if rest > 0:
        return say("{named} and {rest:,} more", named=named, rest=rest)
    return Message("{named}", named=named)


def _reason(approval: Approval, reason: ApprovalReason, lang: Lang) -> Message:
    """Return why a call waits, in words without commands."""
    trail = approval.trail or ApprovalTrail()
    match reason.rule:
        case "confirm":
            return say(
                "You are asked before each call of this tool, as the settings of {server!n} say.",
                server=approval.binding.server,
            )
        case "script":
            return say("A script calls it, and the tool is not marked as read-only.")
        case "flow" if _fetches(approval) and trail.private:
            return say(
                "The address may carry your own data out of this machine: it is long, looks encoded, or "
                "holds something that was read. Text that strangers can write may be what asks for this call."
            )
        case "flow" if "external" in approval.labels and trail.private:
            return say(
                "It sends data out of this machine after your own data and text that strangers can write "
                "were read. That text may be what asks for this call."
            )
        case "flow" if "destructive" in approval.labels:
            return say(
                "It cannot be undone, and text that strangers can write was read before. That text may be "
                "what asks for this call."
            )
        case "flow":
            return say(
                "It sends data out of this machine after text that strangers can write was read. That text "
                "may be what asks for this call."
            )
    return Message("{text}", text=visible(reason.message.render(lang), LONGEST_REASON))


def _named_before(target: JudgedTarget) -> Message:
    """Return where something that the call reaches was named before."""
    value = _word(target.value)
    source = Message("{source} ({tool})", source=source_words(target.source), tool=_name(target.tool))
    match target.naming:
        case "text":
            return say(
                "{target} is named only in text that strangers can write: {source}.",
                target=value,
                source=source,
            )
        case "record" if target.kind == "host":  # a field, or the page itself
            return say("{target} is known only from {source}.", target=value, source=source)
        case "record":
            return say("{target} is from a record of somebody else: {source}.", target=value, source=source)
        case "disguised":
            return say(
                "{target} is hidden in text that strangers can write, in another spelling or in parts: "
                "{source}.",
                target=value,
                source=source,
            )
    return say("Nothing that is still known says where {target} was named.", target=value)


def _remembered(approval: Approval) -> Iterator[Message]:
    """Yield what is allowed from now on with the pairs of an approval: its tool and what it reaches."""
    parts = [pair.partition(">") for pair in approval.pairs]
    known = " ".join((approval.arguments, *(target.value for target in approval.targets))).casefold()
    own = [  # a target with a secret is not among what is shown
        target if target == "-" or target in known else HIDDEN
        for tool, _, target in parts
        if tool == approval.binding.tool
    ]
    tool = _name(approval.binding.tool)
    if own == ["-"]:
        yield say("Allow from now on: calls of {tool} that name nothing are made without asking.", tool=tool)
    elif own:
        named = ", ".join(map(_word, own[:MOST_ALLOWED]))
        named += f", +{len(own) - MOST_ALLOWED}" if len(own) > MOST_ALLOWED else ""
        yield say(
            "Allow from now on: calls of {tool} for {target} are made without asking.",
            tool=tool,
            target=named,
        )
    for pair, (first, _, _) in zip(approval.pairs, parts, strict=True):
        if first != approval.binding.tool:
            yield say("Allow from now on. {what}", what=pair_words(pair))


def _objections(shown: ShownArguments) -> Iterator[Message]:
    if shown.lookalike:
        yield say("An address in it looks like another address.")
    if shown.hidden:
        yield say("The arguments hold characters that nobody sees. They are shown as escapes.")
    if shown.twice:
        yield say("A field is given twice. Servers differ in which of the two they take.")


# -- what was before -------------------------------------------------------------------------------

SOURCES: Mapping[str, Message] = {
    "pages": say("web pages"),
    "posts": say("your posts"),
    "documents": say("your documents"),
    "docs": say("the manual"),
    "hub": say("Tabane"),
    "admin": say("Tabane"),
    "\u2026": say("other sources"),
}
"""Tabane's own sources, by the names that trails and pairs use."""


def source_words(source: str) -> Message:
    """Return the words for what a trail or a pair names: a server, or what it is of Tabane's own."""
    shown = _name(source)
    return SOURCES.get(source) or Message("{name!n}" if shown == source else "{name}", name=shown)


def pair_words(pair: str) -> Message:
    """Return what is allowed by a pair: a tool and what it reaches, or two sources, as earlier versions have.

    Examples are ``mail__send>bob@example.com``, ``mail__send>*``, ``*>*@example.com`` and ``pages>mail``.
    """
    first, _, second = pair.partition(">")
    if second == "*":
        return say("Calls of {tool} are made without asking.", tool=_name(first))
    if second == "-":
        return say("Calls of {tool} that name nothing are made without asking.", tool=_name(first))
    if first == "*":
        return say("Calls for {target} are made without asking.", target=_word(second))
    if "__" in first or any(sign in second for sign in "@/:."):
        return say(
            "Calls of {tool} for {target} are made without asking.", tool=_name(first), target=_word(second)
        )
    return say(
        "After {source} was read, calls of {sink} are made without asking.",
        sink=source_words(second),
        source=source_words(first),
    )


def _read(trail: ApprovalTrail | None) -> Iterator[Message]:
    if trail is None:
        return
    if trail.untrusted:
        yield say("Text that strangers can write: {sources}", sources=_sources(trail.untrusted))
    if trail.private:
        yield say("Your own data: {sources}", sources=_sources(trail.private))


def _sources(sources: Mapping[str, str]) -> Message:
    """Return sources with the tool that read each."""
    named: dict[str, object] = {}
    for number, (source, tool) in enumerate(list(sources.items())[:MOST_SOURCES]):
        named[f"source{number}"], named[f"tool{number}"] = source_words(source), _name(tool)
    listed = ", ".join(f"{{source{number}}} ({{tool{number}}})" for number in range(len(named) // 2))
    rest = len(sources) - MOST_SOURCES
    return Message(listed + (f", +{rest}" if rest > 0 else ""), **named)


def _earlier(earlier: EarlierDecisions, shown: ShownArguments, now: float) -> Iterator[Message]:
    if not earlier.last:
        yield say("None. It is the first time that you are asked about it.")
        return
    ago = now - earlier.last
    when = say("less than a minute ago") if ago < 60 else say("{ago} ago", ago=duration_text(ago))
    yield say(
        "You approved {approved:,} {approved:call|calls} of it, and refused {refused:,}. Your last decision "
        "was {when}.",
        approved=earlier.approved, refused=earlier.refused, when=when,
    )  # fmt: skip
    if earlier.last_approved and earlier.last > earlier.last_approved:
        yield say("You refused the last one.")
    if earlier.changed is None or not earlier.last_approved:
        return
    if not earlier.changed:
        yield say("All fields are the same as in the last approved call.")
        return
    fields = ", ".join(map(_name, earlier.changed[:MOST_CHANGED]))
    fields += ", …" if len(earlier.changed) > MOST_CHANGED else ""
    yield say("Different from the last approved call: {fields}", fields=fields)
    roles = {each.name: each.role for each in shown.fields}
    if any(roles.get(name) == "recipient" for name in earlier.changed):
        yield say("It goes to another recipient than the last approved call.")


def _who(approval: Approval) -> Iterator[Message]:
    who = approval.client or approval.label or approval.binding.holder
    label = approval.label if approval.label != who else ""
    yield (
        Message("{client} ({label})", client=_name(who), label=_name(label))
        if label
        else Message("{client}", client=_name(who))
    )
    if approval.folder:
        folder = _name(approval.folder.removeprefix("file://"), LONGEST_FOLDER)
        yield say("Working folder: {folder}", folder=folder)


# -- text --------------------------------------------------------------------------------------------

_NAME = re.compile(r"[\w@~/][\w@.:/ -]*", re.ASCII)


def visible(text: str, longest: int = LONGEST_NAME) -> str:
    """Return the beginning of an untrusted text, in which no character is hidden."""
    return "".join(visible_parts(text[:longest] + ("…" if len(text) > longest else ""))[0])


def _name(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a name that somebody else chose: on one line, and in quotes unless it is plain."""
    shown = visible(text, longest)
    return shown if _NAME.fullmatch(shown) else json.dumps(shown, ensure_ascii=False)


def _word(text: str) -> str:
    """Return a value that somebody else chose: in quotes unless it can be read as nothing but an address."""
    shown = visible(text)
    return shown if _PLAIN.fullmatch(shown) else json.dumps(shown, ensure_ascii=False)


def letter_text(letter: Letter, lang: Lang, columns: int, longest: int = 1 << 30) -> str:
    """Return a letter as plain text. Only lines with values are kept within ``columns``.

    ``longest`` is the number of characters that are shown of one value.
    """
    lines = [letter.sentence, *(f"! {each}" for each in letter.against), *letter.reasons]
    if letter.fields:
        lines += ["", TITLES["fields"].render(lang), ""]
    for field in letter.fields:
        lines += _field_lines(field, lang, columns, longest)
    if letter.more or letter.lost:
        left_out = say("Not all of it is shown: {count:,} more {count:field|fields}.", count=letter.more)
        if letter.lost:
            left_out = say("Not all of it is shown: only the beginning is kept.")
        lines += ["", left_out.render(lang)]
    answers = (letter.approve, *letter.remember, letter.refuse)
    for name, parts in (
        ("read", letter.read), ("earlier", letter.earlier), ("who", letter.who), ("answers", answers),
    ):  # fmt: skip
        if parts:
            lines += ["", TITLES[name].render(lang), *(f"- {part}" for part in parts)]
    return "\n".join(lines)


def _field_lines(field: LetterField, lang: Lang, columns: int, longest: int) -> Iterator[str]:
    """Yield the lines of a field: on one if it fits, else its value below its name, with a bar."""
    name = say("Arguments").render(lang) if field.kind == "raw" else _name(field.name)
    twice = " ({})".format(say("given twice").render(lang)) if field.twice else ""
    value, cut = field.value[:longest], field.cut + max(0, len(field.value) - longest)
    if field.kind == "secret":
        value = "({})".format(say("hidden, because it looks like a password or a key").render(lang))
    elif not field.size:
        value = "({})".format(say("empty").render(lang))
    head = f"    {name}{twice}:"
    if not cut and "\n" not in value and width(head) + 1 + width(value) <= columns and not _is_turned(value):
        yield f"{head} {value}"
    else:
        yield from (f"    {part}" for part in split_columns(head[4:], columns - 4))
        for line in value.replace("\t", "    ").split("\n"):
            yield from (f"      | {part}".rstrip() for part in split_columns(line, columns - 8))
        if cut:
            yield "      … " + say("{count:,} more {count:character|characters}", count=cut).render(lang)
    for note in field.notes:  # with an address in it that somebody else chose
        yield from (f"      ! {part}" for part in _split_words(note, columns - 8))


def _is_turned(text: str) -> bool:
    """Return whether some of a text runs from right to left, and would take what is beside it along."""
    return not text.isascii() and any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in text)


def width(text: str) -> int:
    """Return how many columns a text takes at most: a terminal may show some characters wide."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(sign: str) -> int:
    return 2 if unicodedata.east_asian_width(sign) in "WFA" else 1


def _split_words(text: str, columns: int) -> Iterator[str]:
    """Split a sentence into lines of at most so many columns: between its words, if they are short enough."""
    line = ""
    for word in text.split(" "):
        if line and width(line) + 1 + width(word) > columns:
            yield from split_columns(line, columns)
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield from split_columns(line, columns)


def split_columns(line: str, columns: int) -> Iterator[str]:
    """Split a line into parts of at most so many columns, wherever that is. There is at least one."""
    start = taken = 0
    for at, sign in enumerate(line):
        taken += _columns_of(sign)
        if taken > columns:
            yield line[start:at]
            start, taken = at, _columns_of(sign)
    yield line[start:]
