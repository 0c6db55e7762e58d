"""Quick answers about texts: whether they may hold secrets. Most do not, and are not read closely."""

from __future__ import annotations

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
