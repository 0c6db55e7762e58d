"""Targets of a call: whom it reaches, what it deletes, and what it does, read from its arguments.

A parameter says by its name what it gives. A value that has the form of an address is one under any name.
Long texts are no targets themselves, but the addresses in them are: a link in a message to a friend leads to
the owner of the link.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import html
import ipaddress
import itertools
import json
import posixpath
import re
import socket
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from tabane.guard.flows.addresses import addresses_in, unescaped
from tabane.guard.flows.tool_labels import words_of
from tabane.guard.flows.tool_roles import Role
from tabane.operations.door import TargetOfCall
from tabane.servers.labels import DESTRUCTIVE, EXTERNAL

MOST_TARGETS = 64
"""Targets that are compared. A call with more of them is asked about as a whole."""

MOST_INSIDE = 1_000
"""Mail addresses in one text that are looked at, also if they are the same again and again."""

LONGEST_TARGET = 300
"""Characters of a value that is a target. A longer one is a text."""

DEEPEST = 16
"""Levels of arguments that are read."""

LONGEST_NAMED = 200
"""Characters of a target in the name of what a person allows. Of a longer one, the end is a hash."""


class Target(NamedTuple):
    """One target. ``inside``: it was found within a longer text, which goes to somebody else."""

    kind: TargetOfCall
    value: str
    parameter: str = ""
    inside: bool = False

    @property
    def name(self) -> str:
        """The one form in which it is compared: lower case; an address with its host as it is sent."""
        return _name_of(self.kind, self.value)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The forms in which a text of others names it, among them those that lead to the same place."""
        name, found = self.name, [folded(self.value)]
        if self.kind == "address":
            found.append(re.sub(r"\+[^@]*@", "@", name))
        elif self.kind != "host":
            found.append(re.sub(r"^[\W_]+|[\W_]+$", "", name) or name)
            found += [number[1] for number in (_NUMBER.fullmatch(found[-1]),) if number]
        return tuple(dict.fromkeys((name, *found)))

    @property
    def permitted(self) -> str:
        """It as a permission names it alone: with path and query, never a wildcard, never cut."""
        name = self.name
        if self.kind == "host":
            name += "/" if "/" not in name and (self.inside or "//" in self.value) else ""
            name += "".join(re.findall(r"\?[^#]*", folded(self.value))[:1])
        if "*" in name or name[:1] in ('"', "-", ""):
            name = f'"{name}"'
        if len(name) > LONGEST_NAMED:
            digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()
            name = f"{name[: LONGEST_NAMED - 20]}…{digest}"
        return name


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
_MAIL_DOMAIN = re.compile(
    r"@(?:[\w-]{1,63}\.){1,8}(?:[^\W\d_]{2,24}(?![\w-])|xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})"
)
_MAIL_NAME = re.compile(r"[\w.+%-]{1,64}")
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

# -- one form of what is compared --------------------------------------------------------------------

MOST_ESCAPES = 4_000
"""Characters of a text that are written as escapes. If there are more, it is not read to its end."""

MOST_ODD = 100
"""Addresses of an unusual form that are read in one text. If there are more, it is not read to its end."""

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that nobody sees."""

_HIDDEN = re.compile("[\U000e0020-\U000e007e]{3,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")
_ESCAPES = {
    "%": re.compile(r"%(?:[0-9a-fA-F]{2}%)*[0-9a-fA-F]{2}"),
    "&": re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,30});"),
    "=40": re.compile(r"=40(?=[a-zA-Z])"),
    "=2": re.compile(r"=2[eE](?=[a-zA-Z])"),
    "\\x": re.compile(r"\\x[0-9a-fA-F]{2}"),
}
"""What escapes begin with: each pattern begins with it too, and so takes little time."""

_TAG = re.compile(r"<[!/a-zA-Z][^<>]{0,500}>")
_COMMENTS = {
    "@(": re.compile(r"(?<=@)\([^()@]{0,60}\)"),
    ")@": re.compile(r"\([^()@]{0,60}\)(?=@)"),
    '"@': re.compile(r'"(?=[^"\s@]{1,64}"@)|(?<=[^"\s@])"(?=@)'),
}
"""What in an address is none of it: comments, and quotes around a name."""

_CALLED = re.compile(r"(?:mailto|tel|sms|smsto|sip|sips|xmpp|callto|skype|whatsapp):(?://)?", re.IGNORECASE)
_MENTION = re.compile(r"<[#@!]([^|<>]{1,80})(?:\|[^<>]{0,80})?>")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_URL = re.compile(
    r"(?:(?:https?|wss?|ftp):[/\\]*|[a-z][a-z0-9+.-]{0,20}:[/\\]{2,}|[/\\]{2,}|)([^/?#]*)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_WITH_SCHEME = re.compile(r"(?:https?|wss?|ftp):|(?!file:)[a-z][a-z0-9+.-]{0,20}:[/\\]{2}", re.IGNORECASE)
_AUTHORITY = re.compile(r"[/\\]{2}([^\s/?#\"'<>]{1,300})([^\s\"'<>]{0,300})")
_ORDINARY = re.compile(
    r"(?![0-9a-fx.]+(?::|$))[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,9}(?::\d{1,5})?", re.IGNORECASE
)
_NUMBER = re.compile(r"\+?0*(\d+)(?:\.0+)?")
_LONGEST_HOST = 253


def folded(text: str) -> str:
    """Return a text as it is compared: one form of each character, lower case, nothing invisible."""
    if not text.isascii():
        for large in "\ufdfa\ufdfb":  # each would become up to 18 others
            text = text.replace(large, " ")
        text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).casefold()
    else:
        text = text.lower()
    return " ".join(text.split())


def _revealed(found: re.Match[str]) -> str:
    codes = [ord(each) for each in found[0]]
    if 0xE0020 <= codes[0] <= 0xE007E:
        return "".join(chr(code - 0xE0000) for code in codes)
    return bytes(
        code - 0xFE00 if code < 0xFFFF else code - 0xE0100 + 16 for code in codes
    ).decode("utf-8", "ignore")  # fmt: skip


def _meant(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] in "=\\":
        return chr(int(text[-2:], 16))
    return unquote(text) if text[0] == "%" else html.unescape(text)


def decoded(text: str) -> tuple[str, bool]:
    """Return a text without the escapes of JSON, HTML and addresses, and with what is hidden in it.

    The second value is False if something escaped is left.
    """
    if not text.isascii():
        text = _HIDDEN.sub(_revealed, text)
    for _ in range(5):
        after, most = text, 0
        for start, pattern in _ESCAPES.items():
            if start in after:
                after, count = pattern.subn(_meant, after, MOST_ESCAPES)
                most = max(most, count)
        after = unescaped(after)
        if after == text:
            for mark, pattern in _COMMENTS.items():
                text = pattern.sub("", text) if mark in text else text
            return text, True
        text = after
        if most == MOST_ESCAPES:
            break
    return text, False


def legible(text: str) -> tuple[str, bool]:
    """Return a text as it is compared with targets: also decoded, and with each host as it is sent.

    The second value is False if a part of it cannot be read.
    """
    plain, whole = decoded(text)
    if "<" in plain and (bare := _TAG.sub("", plain)) != plain:
        parts = [plain, decoded(bare)[0]]
    else:
        parts = [text, plain] if plain != text else [text]
    odd = {found[0]: "host" for found in _AUTHORITY.finditer(plain) if not _ORDINARY.fullmatch(found[1])}
    if "+" in plain or not plain.isascii():
        odd |= {mail: "address" for mail in each_mail_in(plain) if "+" in mail or not mail.isascii()}
    for each, kind in itertools.islice(odd.items(), MOST_ODD):
        parts += address_readings(each) if kind == "host" else Target("address", each).spellings
    return "\n".join(parts), whole and len(odd) <= MOST_ODD


def host_form(authority: str) -> str:
    """Return a host with its port as it is sent: ASCII, an IP address in its usual form."""
    host = folded(decoded(authority)[0].rpartition("@")[2])
    host, port = (found[1], found[2]) if (found := re.fullmatch(r"(.*?)(:\d*)", host)) else (host, "")
    host, port = host.strip(".").replace("\u3002", "."), "" if port in (":", ":80", ":443") else port
    with contextlib.suppress(ValueError, OSError):
        if host[:1] == "[":
            address = ipaddress.IPv6Address(host[1:-1].partition("%")[0])
            host = str(address.ipv4_mapped or f"[{address}]")
        elif re.fullmatch(r"[0-9a-fx.]+", host):
            host = socket.inet_ntoa(socket.inet_aton(host))
        elif not host.isascii() and len(host) <= _LONGEST_HOST:
            host = host.encode("idna").decode()
    return host.removeprefix("www.") + port


def address_readings(value: str) -> list[str]:
    """Return what programs may take an address for; one that all read alike as it is."""
    found: dict[str, None] = {}
    raw = _CONTROL.sub("", value)
    for text in dict.fromkeys((raw, decoded(raw)[0])):
        authority, rest = _parts_of(text)
        pieces = re.split(r"[\\@]+", authority)
        for piece in pieces[-1:] + (pieces[:1] if "\\" in authority else []):
            found[f"https://{host_form(piece)}{rest}"] = None
    is_plain = raw == value and _ORDINARY.fullmatch(_parts_of(value)[0])
    return [value] if is_plain and len(found) == 1 else list(found)


def _parts_of(address: str) -> tuple[str, str]:
    """Return the authority of an address, and what follows it. Every text has both, maybe empty."""
    found = _URL.match(address)
    return (found[1], found[2]) if found is not None else ("", "")


@functools.lru_cache(maxsize=1024)
def _name_of(kind: TargetOfCall, value: str) -> str:
    if kind == "address":
        local, _, domain = folded(value).rpartition("@")
        return f"{local}@{host_form(domain)}"
    if kind == "host":
        authority, rest = _parts_of(value)
        path = folded(re.sub(r"[?#].*", "", rest, flags=re.DOTALL))
        if "//" in path or "/." in path:
            path = posixpath.normpath("/" + path.lstrip("/"))
        return (host_form(authority) + path).rstrip("/")
    if kind == "path" and "://" not in value.replace("file://", ""):
        return posixpath.normpath(folded(value.removeprefix("file://")).replace("\\", "/"))
    return folded(value)


def each_mail_in(text: str) -> Iterator[str]:
    """Yield the mail addresses in a text, in their order."""
    for domain in _MAIL_DOMAIN.finditer(text) if "@" in text else ():
        start = domain.start()
        if name := _MAIL_NAME.match(text[max(start - 64, 0) : start][::-1]):
            yield name[0][::-1] + domain[0]


def mails_in(text: str) -> list[str]:
    """Return the mail addresses in a text, in their order."""
    return list(each_mail_in(text))


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
            if target is None:
                complete = False
                break
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
            if not key.isidentifier():
                yield name, key  # some give recipients as the names of members
            yield from _leaves(each, key, depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, name, depth + 1)
    elif isinstance(value, str):
        if value.strip():
            yield name, value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, number_text(value)


def number_text(value: float) -> str:
    """Return a number as texts write it."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _of_leaf(name: str, value: str, role: Role) -> Iterator[Target | None]:
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
    value = _CALLED.sub("", value)
    pieces = re.split(r"[,;]\s*", value) if "@" in value or role == "recipient" else [value]
    for piece in filter(None, map(str.strip, pieces)):
        kind, plain = _kind_of(piece, words, role)
        if kind is None:
            continue
        mails = mails_in(decoded(piece)[0])
        if role != "recipient" and _BASE64.fullmatch(piece):
            yield from _inside(name, piece)
        if kind == "host":
            yield from (Target("host", each, name) for each in address_readings(plain))
        elif kind not in ("user", "channel", "address") or not mails or not _is_mails(piece, mails):
            yield Target(kind, plain, name)
        yield from (Target("address", mail, name) for mail in mails)


def _is_mails(text: str, mails: list[str]) -> bool:
    """Return whether a text is nothing but addresses with names: no program reads another address in it."""
    text = decoded(text)[0]
    for mail in mails:
        text = re.sub(rf"(?<![^\s<>\"'(,;:=/&?]){re.escape(mail)}(?![^\s<>\"'),;:=/&?.])", "", text, count=1)
    return "@" not in text


def _kind_of(value: str, words: set[str], role: Role) -> tuple[TargetOfCall | None, str]:
    """Return what a short value is, and the part of it that says so."""
    if role == "option" and words & _OWN_SIDE:
        return None, value
    if (
        _WITH_SCHEME.match(value)
        or value.startswith("www.")
        or (role == "place" and (value.startswith(("//", "\\\\")) or _DOMAIN.fullmatch(value)))
    ):
        return "host", value
    if found := _MAIL_ALONE.fullmatch(value):
        return "address", found[1]
    if role == "option" or (role != "recipient" and _DATE.match(value)):
        return None, value
    if _ACCOUNT.fullmatch(value) and sum(map(str.isdigit, value)) >= 7 and role != "object":
        return "account", value
    if role == "recipient":
        if mention := _MENTION.fullmatch(value):
            value = mention[1]
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


def _inside(name: str, text: str) -> Iterator[Target | None]:
    """Yield the addresses within a text; None if there are too many."""
    plain = decoded(text)[0]
    text = text if plain == text else f"{text}\n{plain}"
    for found in itertools.islice(_BASE64.finditer(text), MOST_TARGETS):  # such as a whole mail
        with contextlib.suppress(ValueError):
            body = found[0].rstrip("=").replace("+", "-").replace("/", "_")
            text += "\n" + base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    mails: set[str] = set()
    for count, mail in enumerate(each_mail_in(text)):
        if len(mails) > MOST_TARGETS or count > MOST_INSIDE:
            yield None
            return
        if mail not in mails:
            mails.add(mail)
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
    """Return decoded arguments; None if they are too long, no JSON, or give something twice.

    Of a member that is given twice, one program takes the first and another one the last.
    """
    if len(given) > longest:
        return None
    try:
        found = msgspec.json.decode(given or b"{}")
        if given.count(b":") > 1:
            json.loads(given, object_pairs_hook=_each_once)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found


def _each_once(members: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in members}) < len(members):
        raise ValueError
