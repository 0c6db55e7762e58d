"""Values that look like secrets: by their name, such as API_KEY, or by their form, whatever their name."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

from tabane.text.lazy_patterns import lazy_pattern

MOST_REMEMBERED = 4096
"""Harmless names that are remembered; beyond it, the memory begins again."""

_LONGEST = 200
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[\W_]+")

_HINTS = (
    "pass", "secret", "cookie", "credential", "auth", "key", "token", "pwd", "pw", "pat", "pin", "otp", "jwt",
    "bearer", "cvv", "cvc", "session", "csrf", "redirected",
)  # fmt: skip
"""Each secret name in ASCII contains one of these."""

_SECRET = (
    r"passw(?:or)?d|passphrase|passcode|secrets?(?:_|$)|secret_?key|client_?secret|cookie|credential"
    r"|authori[sz]ation|^redirected_?url$"
    r"|(?:api|access|private|signing|encryption|master|ssh|account|auth|service)_?key(?:s|$|_)"
    r"|(?:^|_)tokens?(?:_|$)"
    r"|(?:access|auth|refresh|id|bearer|bot|api|session|csrf|xsrf|device|user|client|personal)tokens?$"
    r"|(?:^|_)(?:pass|passwd|pwd|pw|pat|pin|otp|totp|auth|jwt|bearer|cvv|cvc|session_?id|csrf)$"
    r"|パスワード|パスフレーズ|暗証番号|秘密鍵|秘密の|トークン|認証情報|合言葉|密码|비밀번호"
)
_HARMLESS = (
    r"(?:^|_)(?:max|min|num|n|total|count|input|output|prompt|completion|used|saved|budget|limit|context"
    r"|new|thinking|reasoning|page|next|cursor|continuation|sync|result|of)_tokens?$"
    r"|^tokens$|tokens?_(?:count|limit|budget|usage|type|index|length|size)$|(?:pin|auth)_?(?:ned|hor)"
)


class SecretNames:
    """Decides by name whether a value is hidden. ``more`` are further names; ``*`` stands for any text."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        patterns = [translate(name.casefold()) for name in more]
        self._more = re.compile("|".join(patterns)) if patterns else None
        self.harmless: set[str] = set()
        """Names that were found harmless: a quick answer for most members."""

    def __contains__(self, name: str) -> bool:
        if name in self.harmless:
            return False
        if self._is_secret(name[:_LONGEST]):
            return True
        if len(self.harmless) >= MOST_REMEMBERED:
            self.harmless.clear()
        if len(name) <= _LONGEST:
            self.harmless.add(name)
        return False

    def _is_secret(self, name: str) -> bool:
        if self._more is not None and self._more.match(name.casefold()):
            return True
        if name.isascii():
            lower = name.lower()
            if not any(hint in lower for hint in _HINTS):
                return False
        secret, harmless = _patterns()
        plain = plain_name(name)
        return secret.search(plain) is not None and harmless.search(plain) is None


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what secret names match, and what those of them match that only look so."""
    return re.compile(_SECRET), re.compile(_HARMLESS)


def plain_name(name: str) -> str:
    """Return a name in one spelling: ``apiKey``, ``API-KEY`` and ``ＡＰＩ＿ＫＥＹ`` become ``api_key``."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    return _BETWEEN.sub("_", _CAMEL.sub("_", name)).casefold()


PAIR_VALUES = frozenset({"value", "values", "val"})
"""Names of members that hold a value, which may be secret if a member beside them names it."""

RUN = 16
"""Characters of the shortest unbroken run of letters and digits that is searched for keys of services."""

_WORDS = (
    "passw",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "key",
    "credential",
    "auth",
    "pin",
    "otp",
)
_WORDS_BEYOND_ASCII = ("パスワード", "暗証番号", "トークン")

_CLASSES = bytes(
    ord("x") if (chr(byte).isalnum() and byte < 128) or byte in b"_-." else ord(" ") for byte in range(256)
)
_RUN = b"x" * RUN


def has_run(text: bytes) -> bool:
    """Return whether a text has a long run of letters, digits, ``_``, ``-`` and ``.``, as keys are."""
    return _RUN in text.translate(_CLASSES)


def may_name_secrets(text: str) -> bool:
    """Return whether :func:`hide_secrets` may find a header or an assignment such as ``password=…``."""
    lower = text.lower()
    if "bearer" in lower or "basic" in lower:
        return True
    if "=" not in text and ":" not in text and "：" not in text:
        return False
    if any(word in lower for word in _WORDS) or "cookie" in lower:
        return True
    return not text.isascii() and any(word in text for word in _WORDS_BEYOND_ASCII)


HIDDEN = "***"

_TOKENS = lazy_pattern(
    r"gh[pousr]_[A-Za-z0-9]{12,}|github_pat_\w{12,}|gl[a-z]{2,6}-[\w-]{12,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|AIza[\w-]{16,}|ya29\.[\w-]{12,}|GOCSPX-[\w-]{12,}"
    r"|[sr]k_(?:live|test)_\w{8,}|whsec_\w{8,}|(?<![A-Za-z0-9])sk-[\w-]{12,}|npm_[A-Za-z0-9]{12,}"
    r"|pypi-[\w-]{12,}|(?<![A-Za-z0-9])hf_[A-Za-z0-9]{12,}|tbn_[\w-]{8,}|SG\.[\w-]{12,}(?:\.[\w-]+)?"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}"
)
_PRIVATE_KEY = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_URL_PASSWORD = lazy_pattern(r"(://[^\s/?#@:]{0,200}:)([^\s/?#]{1,500})(?=@)")
_URL_TOKEN = lazy_pattern(r"(://)([^\s/?#@:]{16,500})(?=@)")
_HEADER = lazy_pattern(
    r"""((?:authorization|cookie)\\{0,8}["']?\s{0,8}[:=]\s{0,8}\\{0,8}["']?)([^\r\n"'\\]+)""", re.IGNORECASE
)
_SCHEME = lazy_pattern(r"\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{4,})", re.IGNORECASE)
_ASSIGNMENT = lazy_pattern(
    r"""((?:passw|passphrase|passcode|pwd|secret|token|key|credential|auth|pin|otp|パスワード|暗証番号|トークン)"""
    r"""[\w.-]{0,40}\\{0,8}["']?\s{0,8}(?:=>|[=:：])\s{0,8})"""
    r"""(\\{0,8}"(?:[^"\\]|\\(?!"))*|\\{0,8}'[^'\\]*|[^\s&;,"'}\])]+)""",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(r"[\w.-]{0,60}\Z")
_NAME = re.compile(r"[\w.-]+")


def hide_secrets(text: str, names: SecretNames) -> str:
    """Return a text with the secrets that are recognized by their form replaced by ``***``."""
    if has_run(text.encode("utf-8", "replace")):
        text = _TOKENS.sub(HIDDEN, text)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if "://" in text and "@" in text:
        text = _URL_TOKEN.sub(rf"\1{HIDDEN}", _URL_PASSWORD.sub(rf"\1{HIDDEN}", text))
    return _hide_named(text, names)


def _hide_named(text: str, names: SecretNames) -> str:
    if not may_name_secrets(text):
        return text
    text = _HEADER.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME.sub(_without_credentials, text)
    return _ASSIGNMENT.sub(lambda found: _without_value(found, names), text)


def _without_credentials(match: re.Match[str]) -> str:
    scheme, space, value = match.groups()
    if scheme.lower() == "basic":
        secret = _holds_colon(value)
    else:
        secret = len(value) >= 12 or not (value.isalpha() and value.islower())
    return scheme + space + (HIDDEN if secret else value)


def _holds_colon(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_")
    except (binascii.Error, ValueError):
        return False


def _without_value(match: re.Match[str], names: SecretNames) -> str:
    head, value = match.groups()
    before = _NAME_BEFORE.search(match.string, max(0, match.start() - 60), match.start())
    word = _NAME.match(head)
    name = (before[0] if before else "") + (word[0] if word else "")
    if name not in names:
        return match[0]
    quote = re.match(r"""\\{0,8}["']?""", value)
    return head + (quote[0] if quote else "") + HIDDEN


SHORTEST = 4
"""Characters of a secret. A shorter one could not be hidden in logs: it would be found everywhere."""

_LONGEST_NAME = 200

_WHOLE_WORDS = frozenset(
    (
        *(
            "true",
            "false",
            "yes",
            "no",
            "on",
            "off",
            "none",
            "null",
            "nil",
            "auto",
            "default",
            "always",
            "never",
        ),
        *("enabled", "disabled", "required", "optional", "changeme", "header", "cookie"),
        *("bearer", "basic", "digest", "oauth", "oauth2", "token", "apikey", "api_key", "api-key", "jwt"),
        *("key", "secret"),
    )
)
"""Values that say how something is done, or that somebody still has to fill in."""

_PLACEHOLDER = lazy_pattern(
    r"\*+|x+|\.+|…|<[^<>]*>|[\[{]+[\w .-]+[\]}]+|\$[A-Za-z_]\w*|%\w+%"
    r"|(?:your|insert|enter|replace|put|add)[-_ ].*(?:key|token|secret|password|here|value)"
    r"|.*[-_ ]here",
    re.IGNORECASE,
)
"""Texts that stand for a value, as in the examples of a README."""

_FACT = lazy_pattern(
    r"(?:file|filename|path|dir|directory|folder|url|uri|endpoint|host|hostname|port|type|mode|method|region"
    r"|ttl|expiry|expires|expiration|timeout|header|header_?name|prefix|name|algorithm|format|enabled|scopes?"
    r"|issuer|audience|provider)$"
)
"""Ends of names that say something about a secret: API_KEY_FILE, TOKEN_TTL."""

_WEAK = re.compile(r"(?:^|_)(?:keys?|sid|credentials?|secret)(?:_|$)")
"""Names of secrets, and of much else: KEY, SORT_KEY."""

_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_FOLDERS = lazy_pattern(
    r"(?:~|\.{1,2}|\$HOME)/\S*|[A-Za-z]:[\\/].*"
    r"|/(?:app|data|etc|home|mnt|opt|private|root|run|secrets|srv|tmp|Users|usr|var|Volumes|workspaces?)"
    r"(?:/.*)?",
    re.DOTALL,
)
"""Paths: relative ones, and those in folders that machines have. A key in base64 may begin with a slash."""

_RANDOM = lazy_pattern(r"(?=.*[0-9])(?=.*[A-Za-z])\S{12,}|\S{24,}")


def looks_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable, header, flag or query is likely to be a secret.

    The value has no variables of the servers file. Words such as "true", placeholders such as
    ``YOUR_API_KEY`` and paths are none.
    """
    text = value.strip()
    if len(text) < SHORTEST or text.casefold() in _WHOLE_WORDS or _PLACEHOLDER.fullmatch(text):
        return False
    if has_secret(text):
        return True
    name = name[:_LONGEST_NAME]
    plain = plain_name(name)
    if _FACT.search(plain) or _ADDRESS.fullmatch(text) or _FOLDERS.fullmatch(text):
        return False
    if name in _names():
        return True
    return _WEAK.search(plain) is not None and _RANDOM.fullmatch(text) is not None


def has_secret(text: str) -> bool:
    """Return whether a text has a secret of a known form: a service's key, a password in a URL, a JWT."""
    return hide_secrets(text, _names()) != text


@cache
def _names() -> SecretNames:
    return SecretNames()
