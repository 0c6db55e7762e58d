"""Shift_JIS, EUC-JP and ISO-2022-JP, also as mail programs and Windows wrote them; pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

SAMPLE = 200_000
"""Characters by which a text is judged."""

NATURAL = 0.9
"""Least share of the characters beyond ASCII that read as Japanese."""

FOREIGN = re.compile(r"[^\x00-\x7f]+")
_KANA = re.compile("[ぁ-んァ-ヶー]")
_HALF_KANA = re.compile("[｡-ﾟ]")
_HALF_WORD = re.compile("[ｦ-ﾟ]{2,}")
# Punctuation, marks and forms that Japanese texts have beside kana and kanji.
_MARKS = re.compile("[　-〟々〆！-～・￥…‥―‘’“”→←↑↓○●◎□■△▲▽▼☆★※×÷±°─━│┃┌┐└┘├┤┬┴┼①-⑳Ⅰ-Ⅹ]")
_ISO_2022_JP: Final = ("iso2022_jp", "iso2022_jp_ext", "iso2022_jp_2004")
_ESCAPED = re.compile(rb"\x1b(?:\$[@B]|\$\([DOPQ]|\([BJI])")
_SHIFT_JIS: Final = ("cp932", "shift_jis_2004")
_EUC_JP: Final = ("euc_jp", "euc_jis_2004")
_CLEAR, _CLEARER = 0.25, 0.75
"""Least difference between the better and the other; the second is for texts without kana."""


class Decoded(NamedTuple):
    """A text, and Python's name for the encoding that it was in."""

    text: str
    encoding: str


def decode_with(data: bytes, encoding: str) -> Decoded | None:
    """Return the text in that encoding; None if the bytes are not valid in it, or there is no such one."""
    try:
        return Decoded(data.decode(encoding), encoding)
    except (UnicodeError, LookupError, ValueError):
        return None


def decode_japanese(data: bytes) -> Decoded | None:
    """Decode Shift_JIS or EUC-JP: the one that reads as Japanese, if the other does not nearly as well."""
    judged = []
    for encodings in (_SHIFT_JIS, _EUC_JP):
        found = next(filter(None, (decode_with(data, encoding) for encoding in encodings)), None)
        if found is not None:
            # Chinese and Korean have their commonest characters where EUC-JP has kanji.
            judged.append((naturalness(found.text, with_kana=encodings is _EUC_JP), found))
    judged.sort(key=lambda each: each[0], reverse=True)
    if not judged or judged[0][0] < NATURAL:
        return None
    best, *others = judged
    clear = _CLEAR if _KANA.search(best[1].text) else _CLEARER
    return None if others and best[0] - others[0][0] < clear else best[1]


def naturalness(text: str, *, with_kana: bool = False) -> float:
    """Return the share of the characters beyond ASCII that read as Japanese, 0..1.

    Kana count, and marks; kanji of the first level (JIS X 0208, rows 16 to 47), those of the second where
    there are kana enough in the text; half-width kana where they make words, whole where they are the lesser
    part, else half. What stands alone beside a Latin letter is not Japanese. A text of many kanji without
    any kana is Chinese or Korean in an encoding that looks alike; ``with_kana`` wants some in any text.
    """
    text = text[:SAMPLE]
    runs = [found for found in FOREIGN.finditer(text) if not found[0].isspace()]
    characters = sum(len(run[0]) for run in runs)
    if not characters:
        return 0.0
    kana = sum(len(_KANA.findall(run[0])) for run in runs)
    half = sum(len(_HALF_KANA.findall(run[0])) for run in runs)
    if (kana + half) * 20 < characters and (with_kana or characters > 40):
        return 0.0
    of_half = 1.0 if half * 2 <= characters else 0.5
    natural = sum(
        _natural(run[0], kana * 5 >= characters, of_half) for run in runs if not _is_stray(run, text)
    )
    return natural / characters


def _is_stray(run: re.Match[str], text: str) -> bool:
    """Return whether a single character is next to a Latin letter: an accent or an apostrophe, misread."""
    if len(run[0]) > 1 or _KANA.match(run[0]) or _MARKS.match(run[0]):
        return False
    return text[max(run.start() - 1, 0) : run.start()].isalpha() or text[run.end() : run.end() + 1].isalpha()


def _natural(run: str, of_kana: bool, of_half: float) -> float:
    kanji = [_is_kanji(character) for character in run]
    usual = len(_KANA.findall(run)) + len(_MARKS.findall(run)) + kanji.count(1)
    rare = kanji.count(2) if of_kana else 0
    return usual + rare + sum(map(len, _HALF_WORD.findall(run))) * of_half


@lru_cache(maxsize=8192)
def _is_kanji(character: str) -> int:
    """Return the level of a kanji; 0 if it is no kanji, or on neither level."""
    if not "一" <= character <= "龠":
        return 0
    try:
        row = character.encode("euc_jp")
    except UnicodeEncodeError:
        return 2  # of IBM's or NEC's choice, as in names
    return 1 if len(row) == 2 and row[0] - 0xA0 < 48 else 2


def iso_2022_jp_text(body: bytes) -> str:
    """Decode ISO-2022-JP, also with the rows and half-width kana that mail programs put into it."""
    for encoding in _ISO_2022_JP:
        found = decode_with(body, encoding)
        if found is not None and "\x1b" not in found.text:
            return found.text
    parts: list[bytes] = []
    shift, at = b"(B", 0
    for escape in _ESCAPED.finditer(body):
        parts.append(_unescaped(body[at : escape.start()], shift))
        shift, at = escape[0][1:], escape.end()
    parts.append(_unescaped(body[at:], shift))
    return euc_jp_text(b"".join(parts))


_HIGH = bytes(byte | 0x80 if 0x21 <= byte <= 0x7E else byte for byte in range(256))


def _unescaped(part: bytes, shift: bytes) -> bytes:
    if shift in (b"$@", b"$B"):
        return part.translate(_HIGH)
    if shift == b"(I":
        return b"".join(
            b"\x8e" + bytes((byte | 0x80,)) if 0x21 <= byte <= 0x5F else bytes((byte,)) for byte in part
        )
    if shift.startswith(b"$("):
        return re.sub(rb"[\x21-\x7e]{2}", lambda pair: b"\x8f" + pair[0].translate(_HIGH), part)
    return part


def has_escapes(body: bytes) -> bool:
    """Return whether the bytes hold escapes as ISO-2022-JP has them."""
    return _ESCAPED.search(body) is not None


def euc_jp_text(body: bytes) -> str:
    """Decode EUC-JP line by line, also as Windows wrote it; what cannot be decoded is U+FFFD."""
    return "".join(map(_euc, body.splitlines(keepends=True)))


def _euc(line: bytes) -> str:
    """Decode EUC-JP of Windows, with circled numbers and name characters that the standard lacks."""
    try:
        return line.decode("euc_jp")
    except UnicodeDecodeError:
        pairs = re.findall(rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xdf]|[\xa1-\xfe]{2}|[\x00-\x7f]+|.", line, re.S)
        return "".join(map(_pair, pairs))


def _pair(pair: bytes) -> str:
    try:
        return pair.decode("euc_jp")
    except UnicodeDecodeError:
        return _shifted(pair).decode("cp932", "replace") if len(pair) == 2 else "\ufffd"


def _shifted(pair: bytes) -> bytes:
    """Return the same row and cell of JIS X 0208 in Shift_JIS."""
    row, cell = pair[0] - 0xA1, pair[1] - 0xA1
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    trail = cell + (0x9F if row % 2 else 0x40)
    return bytes((lead, trail + (not row % 2 and trail >= 0x7F)))
