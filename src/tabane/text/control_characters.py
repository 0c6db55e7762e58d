"""Removal of characters that steer a terminal or deceive its reader, from untrusted text. Pure.

A terminal obeys the control characters of ASCII (C0, DEL) and of Latin-1 (C1), and the sequences that they
begin: they move the cursor, rename the window or write to the clipboard. Overrides and isolates of direction
(U+202A to U+202E, U+2066 to U+2069) show text in another order than it has. Characters without width hide in
a name.

Joiners are kept between characters that they can join: in emoji, Arabic, Persian and the scripts of India.
Tags are kept in the three flags that Unicode recommends. Sources: ECMA-48, UTS #39, UTS #51.
"""

from __future__ import annotations

import re

from tabane.text.lazy_patterns import lazy_pattern

_SEQUENCE = lazy_pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
"""Control sequences, strings with their ends, and other escape sequences."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_UNJOINED = r"[\x00-\u024f\u0370-\u052f\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]"
"""Characters that no joiner joins: Latin, Greek, Cyrillic, and those of China, Japan and Korea."""

_INVISIBLE = lazy_pattern(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
    "|[\u180e\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
    f"|(?:(?<={_UNJOINED})|(?<![^\n]))[\u200c\u200d]+|[\u200c\u200d]+(?={_UNJOINED}|$)"
)
"""Invisible characters that are removed; and the flags, so that their tags are not found alone."""

_SUSPECT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Characters without which a text is clean. The usual text has none, and is not copied."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def without_controls(text: str) -> str:
    """Return untrusted text so that it can be printed, to a terminal or elsewhere.

    Newlines and tabs stay. Escape sequences and deceiving invisible characters are removed. Other control
    characters and halves of surrogate pairs, which no encoding has, become U+FFFD.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")
    text = _CONTROL.sub(REPLACEMENT, _SEQUENCE.sub("", text))
    return _INVISIBLE.sub(_kept_flag, text)


def escaped_controls(written: str) -> str:
    """Return JSON with these characters as escapes: the same data, which does nothing to a terminal.

    ``written`` must be valid JSON. Carriage returns between its tokens become spaces.
    """
    if _SUSPECT.search(written) is None:
        return written
    written = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", written.replace("\r", " "))
    return _INVISIBLE.sub(lambda found: _kept_flag(found) or _escapes(found), written)


def shown_controls(text: str) -> str:
    """Return untrusted text with these characters as their numbers, such as ``⟨U+202E⟩``: nothing is hidden.

    For a page, where they do nothing but deceive. Newlines and tabs stay.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")
    return _INVISIBLE.sub(lambda found: _kept_flag(found) or _numbers(found), _CONTROL.sub(_numbers, text))


def ascii_json(written: str) -> str:
    """Return valid JSON as the same data in ASCII."""
    return _BEYOND_ASCII.sub(_escapes, written)


def _kept_flag(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\U0001f3f4") else ""


def _numbers(match: re.Match[str]) -> str:
    return "".join(f"\u27e8U+{ord(sign):04X}\u27e9" for sign in match[0])


def _escapes(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
