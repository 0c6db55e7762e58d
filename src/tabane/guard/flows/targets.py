"""Targets of a call: whom it reaches, what it deletes, and what it does, read from its arguments.

A parameter says by its name what it gives. A value that has the form of an address is one under any name.
Long texts are no targets themselves, but the addresses in them are: a link in a message to a friend leads to
the owner of the link.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from tabane.guard.flows.addresses import addresses_in
from tabane.guard.flows.tool_labels import words_of
from tabane.guard.flows.tool_roles import Role
from tabane.operations.door import TargetOfCall
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL

MOST_TARGETS = 64
"""Targets that are compared. A call with more of them is asked about as a whole."""

LONGEST_TARGET = 300
"""Characters of a value that is a target. A longer one is a text."""

DEEPEST = 16
"""Levels of arguments that are read."""

LONGEST_NAMED = 200
"""Characters of a target in the name of what a person allows."""


class Target(NamedTuple):
    """One target. ``inside``: it was found within a longer text, which goes to somebody else."""

    kind: TargetOfCall
    value: str
    parameter: str = ""
    inside: bool = False

    @property
    def name(self) -> str:
        """Return it as permissions write it: lower case, without scheme, query and final slash."""
        name = folded(self.value)
        if self.kind == "host":
            name = re.sub(r"^https?://|[?#].*$", "", name).rstrip("/").removeprefix("www.")
        return name[:LONGEST_NAMED]


class CallTargets(NamedTuple):
    """The targets of a call. ``deletes``: they are what is deleted, not whom it reaches.

    ``complete``: False if there may be others, because there are too many arguments or they are no JSON.
    """

    targets: tuple[Target, ...]
    deletes: bool = False
    complete: bool = True


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CHANNELS = _words("channel channels room rooms group groups chat chats conversation team teams list space")
_ACCOUNTS = _words("iban account accounts phone phones telephone number wallet card konto compte 口座")
_PATHS = _words(
    "path paths file files filename filenames filepath directory folder repo repos repository bucket"
)
_EVERYBODY = _words(
    "link anyone public everyone everybody world all reader writer viewer editor 全員 公開 リンク"
)
_OWN_SIDE = _words("from sender author")
_PROGRAMS = _words("command commands cmd code script sql program expression")
_DELETING = re.compile(
    r"delete|remove|erase|drop|purge|clear|revoke|wipe|destroy|truncate|unlink|trash|discard|cancel|uninstall|"
    r"deactivate|evict|kick|\bban|expel|archive|unshare|削除|消去|取消",
    re.IGNORECASE,
)
_MAIL_DOMAIN = re.compile(r"@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}")
_MAIL_NAME = re.compile(r"[\w.+%-]{1,64}$")
_MAIL_ALONE = re.compile(r"(?:[^<>@]{0,120}<)?([^\s<>@,;]{1,64}@[^\s<>@,;]{1,200})>?")
_ACCOUNT = re.compile(r"[a-z]{2}\d{2}(?: ?[a-z0-9]){10,32}|\+?\d(?:[ ()/.-]?\d){6,24}", re.IGNORECASE)
_DOMAIN = re.compile(
    r"(?<![\w@./-])(?:[a-z0-9-]{1,63}\.){1,6}"
    r"(?:com|net|org|info|biz|io|dev|app|co|ai|me|xyz|site|online|top|link|shop|club|live|page|tech|cloud|ly|gl|"
    r"example|gg|to|cc|tv|ws|su|ru|cn|jp|kr|tw|in|de|uk|fr|it|es|nl|eu|us|ca|au|br|ch|at|pl|se|no|fi|cz|ua|tk|ml|ga)"
    r"(?![\w-])(?:/[^\s\"'<>]*)?|(?<![\w@./-])(?:[a-z0-9-]{1,63}\.){1,6}[a-z]{2,24}/[^\s\"'<>]+",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[\d\s:.,/TZ+-]*|true|false|yes|no|none|null|[a-z]{1,2}", re.IGNORECASE)
_DATE = re.compile(r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[./]\d\d?[./]\d{4}|\d\d?:\d\d")
_UNSEEN = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff]")


def folded(text: str) -> str:
    """Return a text as it is compared: one form of each character, lower case, nothing invisible."""
    if not text.isascii():
        text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).casefold()
    else:
        text = text.lower()
    return " ".join(text.split())


def mails_in(text: str) -> list[str]:
    """Return the mail addresses in a text, in their order."""
    found = []
    for domain in _MAIL_DOMAIN.finditer(text) if "@" in text else ():
        start = domain.start()
        if name := _MAIL_NAME.search(text[max(start - 64, 0) : start]):
            found.append(name[0] + domain[0])
    return found


Roles = Callable[[str], Role]
"""Returns the role of a parameter, or of a name within an argument."""


def targets_of(tool: str, bits: int, given: object, roles: Roles) -> CallTargets:
    """Return the targets of a call of a tool (without its server) with the labels ``bits``.

    ``given`` are its decoded arguments; anything but an object gives none, and is not complete.
    """
    if not isinstance(given, dict):
        return CallTargets((), complete=False)
    found: dict[Target, None] = {}
    objects: set[Target] = set()
    complete = True
    for count, (name, value) in enumerate(_leaves(given, "", 0)):
        if value is None or count >= 4 * MOST_TARGETS or len(found) > MOST_TARGETS:
            complete = False
            break
        role = roles(name)
        for target in _of_leaf(name, value, role):
            found[target] = None
            if role == "object":
                objects.add(target)
    complete = complete and len(found) <= MOST_TARGETS
    deletes = bool(bits & DESTRUCTIVE) and _DELETING.search(tool) is not None
    chosen = _chosen(tuple(found), objects, bits, deletes=deletes)
    return CallTargets(chosen[:MOST_TARGETS], deletes, complete)


def _leaves(value: object, name: str, depth: int) -> Iterator[tuple[str, str | None]]:
    """Yield texts and numbers among arguments, each with the parameter that gives it; None if too deep."""
    if depth > DEEPEST:
        yield name, None
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, key if isinstance(key, str) else name, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, name, depth + 1)
    elif isinstance(value, str):
        if value.strip():
            yield name, value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, str(value)


def _of_leaf(name: str, value: str, role: Role) -> Iterator[Target]:
    words = set(words_of(name))
    if words & _PROGRAMS:
        yield Target("program", value[: 4 * LONGEST_TARGET], name)
        yield from _inside(name, value)
        return
    if role == "content" and len(value) <= LONGEST_TARGET and "\n" not in value:
        if "topic" in words and " " not in value:  # of a service that pushes messages
            yield Target("channel", value, name)
        elif "value" in words:
            yield Target("value", value, name)
    if role == "content" or len(value) > LONGEST_TARGET or "\n" in value:
        yield from _inside(name, value)
        return
    pieces = re.split(r"[,;]\s*", value) if "@" in value or role == "recipient" else [value]
    for piece in filter(None, map(str.strip, pieces)):
        kind, plain = _kind_of(piece, words, role)
        if kind is not None:
            yield Target(kind, plain, name)


def _kind_of(value: str, words: set[str], role: Role) -> tuple[TargetOfCall | None, str]:
    """Return what a short value is, and the part of it that says so."""
    if role == "option" and words & _OWN_SIDE:
        return None, value
    if found := _MAIL_ALONE.fullmatch(value):
        return "address", found[1]
    if value.startswith(("http://", "https://", "www.")) or (role == "place" and _DOMAIN.fullmatch(value)):
        return "host", value
    if role == "option" or (role != "recipient" and _DATE.match(value)):
        return None, value
    if _ACCOUNT.fullmatch(value) and sum(map(str.isdigit, value)) >= 7 and role != "object":
        return "account", value
    if role == "recipient":
        if folded(value) in _EVERYBODY or (value.isdigit() and len(value) < 4):
            return None, value  # then what is shared decides; or so many guests
        if words & _CHANNELS:
            return "channel", value.lstrip("#")
        return ("account", value) if words & _ACCOUNTS else ("user", value.lstrip("@"))
    if value.startswith(("/", "~/", "./", "../")) or words & _PATHS:
        return ("id" if words & {"id", "ids"} else "path"), value
    if role == "object":
        return (
            "id" if _PLAIN.fullmatch(value) or words & {"id", "ids", "uid", "uuid", "key"} else "value"
        ), value
    if _PLAIN.fullmatch(value):
        return None, value
    return ("host" if role == "place" else "value"), value


def _inside(name: str, text: str) -> Iterator[Target]:
    """Yield the addresses within a text."""
    for mail in mails_in(text):
        yield Target("address", mail, name, inside=True)
    seen: set[str] = set()
    bare = (found[0].rstrip(".,;:!?)") for found in _DOMAIN.finditer(text))
    for address in itertools.chain(addresses_in(text), bare):
        target = Target("host", address, name, inside=True)
        if target.name not in seen:
            seen.add(target.name)
            yield target
        if len(seen) > MOST_TARGETS:
            return


_REACHED = ("address", "host", "account", "channel", "user")


def _chosen(
    found: tuple[Target, ...], objects: set[Target], bits: int, *, deletes: bool
) -> tuple[Target, ...]:
    """Return the targets that decide: what is deleted, or whom the call reaches, or what it does."""
    own = [target for target in found if not target.inside]
    inside = [target for target in found if target.inside]
    programs = [target for target in own if target.kind == "program"]
    if deletes:
        gone = [target for target in own if target in objects] or own
        reached = [target for target in own if bits & EXTERNAL and target.kind in _REACHED]
        return tuple(dict.fromkeys((*gone, *reached, *programs)))
    if bits & EXTERNAL:
        reached = [target for target in own if target.kind in _REACHED]
        rest = [target for target in own if target in objects] or own
        return tuple(dict.fromkeys((*(reached or rest), *inside, *programs)))
    return tuple(dict.fromkeys((*own, *inside)))


def arguments_of(given: bytes, longest: int) -> Any:
    """Return decoded arguments; None if they are too long or no JSON."""
    if len(given) > longest:
        return None
    try:
        return msgspec.json.decode(given or b"{}")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
