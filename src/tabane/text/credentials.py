"""Credentials in JSON: tokens with a vendor's prefix, private keys, JWTs, passwords in addresses, headers.

``text/secret_values.py`` hides whatever may be a secret, since a log loses nothing by it. Here a find is
reported, or changes what a tool gets. So only forms with a fixed structure count, in their full length: no
hashes, no UUIDs, no pictures in base64, and no examples of documentation.

A text is read as the bytes of its JSON. No form has a quotation mark or a backslash of JSON's own in it except
private keys, whose line ends are escaped; so what replaces a find leaves the JSON valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from tabane.text.lazy_patterns import lazy_pattern

LONGEST = 21_000
"""Bytes of the longest form, with its ends."""

WINDOW = 128 << 10
"""Bytes of a text that are read at once. A regular expression holds the interpreter meanwhile."""

_BEFORE = 400  # bytes before a secret that decide whether it is one

SHORTEST_OWN = 8
"""Characters of a secret of the user's own that is recognized by its value."""

_START = rb"(?:(?<![A-Za-z0-9_/+=-])|(?<=\\[nrtbf]))"
_END = rb"(?![A-Za-z0-9_/+=-])"


class FoundCredential(NamedTuple):
    """Where a credential is in a text, and of what kind it is."""

    start: int
    end: int
    kind: str

    def moved(self, by: int) -> FoundCredential:
        return FoundCredential(self.start + by, self.end + by, self.kind)


class _Form(Struct, frozen=True):
    """A form of credentials. The expression is tried on texts with one of ``anchors``; group 1 is secret."""

    kind: str
    anchors: tuple[bytes, ...]
    expression: re.Pattern[bytes]


def _token(kind: str, anchor: bytes | tuple[bytes, ...], body: bytes) -> _Form:
    anchors = anchor if isinstance(anchor, tuple) else (anchor,)
    return _Form(kind, anchors, lazy_pattern(_START + b"(" + body + b")" + _END))


_FORMS: tuple[_Form, ...] = (
    _token("github-token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9]{36,251}"),
    _token("github-token", b"github_pat_", rb"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token("gitlab-token", b"glpat-", rb"glpat-[\w-]{20,64}(?:\.[\w.]{4,20})?"),
    _token("slack-token", (b"xox", b"xapp-"), rb"xox[abeprs]-[A-Za-z0-9-]{20,250}|xapp-[0-9]-[A-Z0-9]{8,64}-[0-9]{1,32}-[a-f0-9]{32,256}"),
    _token("aws-key", (b"AKIA", b"ASIA"), rb"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    _token("google-key", b"AIza", rb"AIza[\w-]{35}"),
    _token("google-token", (b"ya29.", b"GOCSPX-"), rb"ya29\.[\w-]{40,1000}|GOCSPX-[\w-]{28}"),
    _token("stripe-key", (b"sk_live_", b"rk_live_", b"whsec_"), rb"[sr]k_live_[A-Za-z0-9]{24,247}|whsec_[A-Za-z0-9]{32,64}"),
    _token("anthropic-key", b"sk-ant-", rb"sk-ant-[a-z0-9]{3,10}-[\w-]{80,120}"),
    _token("openai-key", b"sk-", rb"sk-(?:proj|svcacct|admin)-[\w-]{40,200}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|sk-[A-Za-z0-9]{48}|sk-or-v1-[a-f0-9]{64}"),
    _token("npm-token", b"npm_", rb"npm_[A-Za-z0-9]{36}"),
    _token("pypi-token", b"pypi-", rb"pypi-AgEIcHlwaS5vcmc[\w-]{50,1000}"),
    _token("huggingface-token", b"hf_", rb"hf_[A-Za-z]{34}"),
    _token("sendgrid-key", b"SG.", rb"SG\.[\w-]{22}\.[\w-]{43}"),
    _token("shopify-token", b"shp", rb"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _token("digitalocean-token", (b"dop_v1_", b"doo_v1_"), rb"do[op]_v1_[a-f0-9]{64}"),
    _token("linear-key", b"lin_api_", rb"lin_api_[A-Za-z0-9]{40}"),
    _token("notion-token", b"ntn_", rb"ntn_[A-Za-z0-9]{43,60}"),
    _token("supabase-token", b"sbp_", rb"sbp_[a-f0-9]{40}"),
    _token("groq-key", b"gsk_", rb"gsk_[A-Za-z0-9]{52}"),
    _token("age-key", b"AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _token("tabane-key", b"tbn_", rb"tbn_[\w-]{24,100}"),
    _token("jwt", b"eyJ", rb"eyJ[\w-]{10,2000}+\.eyJ[\w-]{10,8000}+\.[\w-]{20,2000}+"),
    _Form(
        "private-key",
        (b"PRIVATE KEY-----",),
        lazy_pattern(rb'(-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----[^"-]{100,20000}+-----END (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----)'),
    ),
    _Form(
        "password-in-url",
        (b"@",),
        lazy_pattern(rb'://[^\s/?#@:"\\<>{}$]{1,100}+:([^\s/?#@"\\<>{}$*]{3,200}+)@[\w.-]{2}'),
    ),
    _Form(
        "authorization-header",
        (b"uthorization",),
        lazy_pattern(rb'(?i)\bauthorization\\?["\']?\s{0,4}[:=]\s{0,4}\\?["\']?(?:bearer|basic|token)\s{1,4}([A-Za-z0-9._~+/=-]{20,2000})'),
    ),
)  # fmt: skip

_BY_ANCHOR = tuple((anchor, form) for form in _FORMS for anchor in form.anchors)
_NO_PREFIX = ("password-in-url", "private-key", "authorization-header")
_WITHOUT_PREFIX = tuple((anchor, form) for anchor, form in _BY_ANCHOR if form.kind in _NO_PREFIX)
PREFIXES = tuple(anchor.decode() for anchor, form in _BY_ANCHOR if form.kind not in (*_NO_PREFIX, "jwt"))
"""What keys of services begin with."""

_ANCHORS = tuple(anchor for anchor, _ in _WITHOUT_PREFIX)
_PREFIX = lazy_pattern(
    b"|".join(re.escape(anchor) for anchor, form in _BY_ANCHOR if form.kind not in _NO_PREFIX)
)
_MOST_RUNS = 16
_RUN = b"x" * 20
_CLASSES = bytes(
    ord("x") if (chr(byte).isalnum() and byte < 128) or byte in b"_-." else ord(" ") for byte in range(256)
)
"""All tokens have 20 letters, digits and such in a row: to look for those is cheaper than for each prefix."""

_EXAMPLE = re.compile(
    rb"(?i)example|placeholder|your|x{6}|redacted|dummy|sample|0123456|1234567|abcdefg|changeme|secret-?here|foobar"
)
_PASSWORDS_OF_EXAMPLES = frozenset(
    (b"password", b"passwd", b"pass", b"pwd", b"secret", b"user", b"username", b"postgres", b"root", b"admin", b"mysecretpassword", b"token", b"guest", b"test")
)  # fmt: skip


class CredentialFinder:
    """Finds credentials in JSON. ``own`` are secrets of the user, which are found by their value."""

    def __init__(self, own: Iterable[str] = ()) -> None:
        self._own = tuple(sorted(set(_written(own)), key=lambda value: (-len(value), value)))
        self._longest = max(LONGEST, *map(len, self._own)) if self._own else LONGEST

    def find(self, text: bytes, pause: Callable[[], None] = lambda: None) -> list[FoundCredential]:
        """Return the credentials of a text, in their order, none within another.

        ``pause`` is called between steps of few milliseconds, however long the text is.
        """
        if len(text) <= WINDOW:
            return _outermost(self._found(text, pause), [])
        kept: list[FoundCredential] = []
        for at in range(0, len(text), WINDOW):
            before = max(at - _BEFORE, 0)
            credentials = self._found(text[before : at + WINDOW + self._longest], pause)
            inside = [one.moved(before) for one in credentials if at <= one.start + before < at + WINDOW]
            _outermost(inside, kept)
            pause()
        return kept

    def _found(self, text: bytes, pause: Callable[[], None]) -> list[FoundCredential]:
        credentials = list(_by_form(text, pause)) if _may_have_form(text) else []
        if self._own:
            credentials += self._by_value(text, pause)
        return credentials

    def _by_value(self, text: bytes, pause: Callable[[], None]) -> Iterator[FoundCredential]:
        for value in self._own:
            pause()
            at = text.find(value)
            while at >= 0:
                yield FoundCredential(at, at + len(value), "own-secret")
                at = text.find(value, at + len(value))


def _outermost(credentials: list[FoundCredential], kept: list[FoundCredential]) -> list[FoundCredential]:
    """Add what was found to what is kept, without what lies within another. Return what is kept."""
    for one in sorted(credentials):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def _may_have_form(text: bytes) -> bool:
    """Return whether a text may have a credential of a known form: quickly, since most have none."""
    for anchor in _ANCHORS:
        if anchor in text:
            return True
    return _RUN in text.translate(_CLASSES)


def _by_form(text: bytes, pause: Callable[[], None]) -> Iterator[FoundCredential]:
    runs = text.translate(_CLASSES)
    tried: set[bytes] = set()
    for anchor, form in _BY_ANCHOR if _has_prefix(text, runs) else _WITHOUT_PREFIX:
        if anchor in text and form.expression.pattern not in tried:
            tried.add(form.expression.pattern)
            pause()
            for match in form.expression.finditer(text):
                if not _is_example(form.kind, match[1]):
                    yield FoundCredential(match.start(1), match.end(1), form.kind)


def _has_prefix(text: bytes, runs: bytes) -> bool:
    """Return whether a long run of letters and digits holds the prefix of a token. Most texts have none."""
    at = runs.find(_RUN)
    for _ in range(_MOST_RUNS):
        if at < 0:
            return False
        end = runs.find(b" ", at)
        end = len(runs) if end < 0 else end
        if _PREFIX.search(text, runs.rfind(b" ", 0, at) + 1, end):
            return True
        at = runs.find(_RUN, end)
    return True


def _is_example(kind: str, value: bytes) -> bool:
    if kind == "private-key":
        return _EXAMPLE.search(value, 30, 200) is not None or b"..." in value
    if kind == "password-in-url":
        return value.lower() in _PASSWORDS_OF_EXAMPLES or _EXAMPLE.search(value) is not None
    if kind == "jwt":
        return value.startswith(b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkw")
    return _EXAMPLE.search(value) is not None or len(set(value[-24:])) < 8


def without_credentials(
    text: bytes, credentials: Iterable[FoundCredential], pause: Callable[[], None] = lambda: None
) -> bytes:
    """Return a text with each credential replaced by its kind, as in ``[redacted:github-token]``."""
    parts: list[bytes] = []
    at = 0
    for one in credentials:
        pause()
        parts += (text[at : one.start], b"[redacted:%b]" % one.kind.encode())
        at = one.end
    return b"".join((*parts, text[at:]))


def kinds_of(credentials: Iterable[FoundCredential]) -> tuple[str, ...]:
    """Return the kinds of credentials that were found, each once."""
    return tuple(dict.fromkeys(one.kind for one in credentials))


def _written(values: Iterable[str]) -> Iterator[bytes]:
    """Yield values as JSON writes them, with and without escapes."""
    import json

    for value in values:
        if len(value) >= SHORTEST_OWN and not value.isalpha():
            for ascii_only in (True, False):
                yield json.dumps(value, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")
