"""Names of members whose values are secrets: password, apiKey, 暗証番号 and the like."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import translate
from functools import cache

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
