"""Bytes as text, where they can be nothing else: a wrong guess is worse than none; pure.

What says itself what it is comes first: a byte order mark, UTF-8 (chance all but never makes it), the
escapes of ISO-2022-JP. What is left is taken for UTF-16, Shift_JIS or EUC-JP where it reads as Japanese
does, and as nothing else: kana and common kanji in runs. That tells apart what decodes without an error but
is Western, Cyrillic, Chinese or Korean, in an encoding of its own.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import Final, NamedTuple

UTF_8: Final = "utf-8"
_SAMPLE = 200_000  # characters that are looked at to judge a text
_KANA = re.compile("[ぁ-んァ-ヶー]")
_HALF_KANA = re.compile("[｡-ﾟ]")
_HALF_WORD = re.compile("[ｦ-ﾟ]{2,}")
# Punctuation, marks and forms that Japanese texts have beside kana and kanji.
_MARKS = re.compile("[　-〟々〆！-～・￥…‥―‘’“”→←↑↓○●◎□■△▲▽▼☆★※×÷±°─━│┃┌┐└┘├┤┬┴┼①-⑳Ⅰ-Ⅹ]")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ISO_2022_JP: Final = ("iso2022_jp", "iso2022_jp_ext", "iso2022_jp_2004")
_ESCAPES = re.compile(rb"\x1b(?:\$[@B]|\$\([DOPQ]|\(I)")
_SHIFT_JIS: Final = ("cp932", "shift_jis_2004")
_EUC_JP: Final = ("euc_jp", "euc_jis_2004")
_NATURAL, _CLEAR, _CLEARER = 0.9, 0.25, 0.75
"""How much of what is not ASCII reads as Japanese at least; by how much the better of two is better, and
where it has no kana."""
_FEW = 32  # characters: so short a text is taken for UTF-16 where much of it is ASCII


class Decoded(NamedTuple):
    """A text, and the encoding it was in, by the name that Python has for it."""

    text: str
    encoding: str


def decoded(data: bytes) -> Decoded | None:
    """The text that bytes are, its line ends as ``\\n``; None where they are none, or any of several."""
    mark = _mark(data)
    found = _marked(data, mark) if mark else _plain(data) or _utf16(data) or _japanese(data)
    return None if found is None else Decoded(_with_line_feeds(found.text), found.encoding)


def decoded_with(data: bytes, encoding: str) -> Decoded | None:
    """The text where it says itself what it is, else in an encoding that somebody named."""
    mark = _mark(data)
    found = _marked(data, mark) if mark else _plain(data)
    if found is None and not mark and not is_binary(data):
        text = _strict(data, encoding)
        found = None if text is None else Decoded(text, encoding)
    return None if found is None else Decoded(_with_line_feeds(found.text), found.encoding)


def is_encoding(name: str) -> bool:
    """Whether an encoding of text has this name; those of bytes, as base64, are none."""
    try:
        return isinstance(b"".decode(name), str) and isinstance("".encode(name), bytes)
    except (LookupError, ValueError, AssertionError):
        return False


def is_binary(data: bytes) -> bool:
    """Whether bytes that are no text we know are none at all: texts have hardly any control characters."""
    beginning = data[:8192]
    controls = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 or byte == 127 for byte in beginning)
    return controls * 100 > len(beginning)


def _mark(data: bytes) -> str | None:
    """The encoding that a byte order mark names."""
    return next((encoding for mark, encoding in _BOMS if data.startswith(mark)), None)


def _marked(data: bytes, encoding: str) -> Decoded | None:
    text = _strict(data, encoding)
    return None if text is None or "\0" in text else Decoded(text, encoding)


def _plain(data: bytes) -> Decoded | None:
    """ISO-2022-JP, whose bytes are ASCII, or UTF-8."""
    if b"\0" in data:
        return None
    if _ESCAPES.search(data) and data.isascii():
        for encoding in _ISO_2022_JP:
            text = _strict(data, encoding)
            if text is not None and "\x1b" not in text:
                return Decoded(text, encoding)
    text = _strict(data, UTF_8)
    # Nothing but control characters, or many of them: a format of its own that happens to be ASCII.
    return None if text is None or is_binary(data) else Decoded(text, UTF_8)


def _utf16(data: bytes) -> Decoded | None:
    """UTF-16 without a mark: the zeros of its ASCII are all on one side, and it reads as a text does."""
    if len(data) < 4 or len(data) % 2:
        return None
    even, odd = data[::2].count(0), data[1::2].count(0)
    if bool(even) == bool(odd) or (len(data) < 2 * _FEW and (even + odd) * 8 < len(data)):
        return None
    encoding = "utf-16-le" if odd else "utf-16-be"
    text = _strict(data, encoding)
    if text is None or _CONTROLS.search(text) or not all(map(_is_usual, text[:_SAMPLE])):
        return None
    foreign = "".join(_FOREIGN.findall(text[:_SAMPLE]))
    natural = sum(map(_is_of_a_script, foreign))
    return Decoded(text, encoding) if natural >= len(foreign) * _NATURAL else None


def _is_usual(character: str) -> bool:
    return unicodedata.category(character) not in ("Cn", "Co", "Cs")


def _is_of_a_script(character: str) -> bool:
    """Whether a character is of those that most texts are made of: chance would hit all planes alike."""
    code = ord(character)
    return code < 0x1200 or 0x2010 <= code < 0x2700 or 0x3000 <= code < 0x3100 or (
        0x4E00 <= code < 0xA000 or 0xAC00 <= code < 0xD7A4 or 0xFF00 <= code < 0xFFEF or code >= 0x1F300
    )  # fmt: skip


def _japanese(data: bytes) -> Decoded | None:
    """Shift_JIS or EUC-JP: the one that reads as Japanese, where the other does not nearly as well."""
    if is_binary(data):
        return None
    judged = []
    for encodings in (_SHIFT_JIS, _EUC_JP):
        tried = ((_strict(data, encoding), encoding) for encoding in encodings)
        for text, encoding in tried:
            if text is not None:
                # Chinese and Korean have their commonest characters where EUC-JP has kanji.
                natural = naturalness(text, with_kana=encodings is _EUC_JP)
                judged.append((natural, Decoded(text, encoding)))
                break
    judged.sort(key=lambda each: each[0], reverse=True)
    if not judged or judged[0][0] < _NATURAL:
        return None
    best, *others = judged
    clear = _CLEAR if _KANA.search(best[1].text) else _CLEARER
    return None if others and best[0] - others[0][0] < clear else best[1]


def naturalness(text: str, *, with_kana: bool = False) -> float:
    """How much of a text that is not ASCII reads as Japanese, 0..1.

    Kana count, and marks; kanji of the first level (JIS X 0208, rows 16 to 47), those of the second where
    there are kana enough in the text; half-width kana where they make words, whole where they are the lesser
    part, else half. What stands alone beside a Latin letter is not Japanese. A text of many kanji without
    any kana is Chinese or Korean in an encoding that looks alike; ``with_kana`` wants some in any text.
    """
    text = text[:_SAMPLE]
    runs = [found for found in _FOREIGN.finditer(text) if not found[0].isspace()]
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
    """Whether a lone character stands beside a Latin letter: an accent or an apostrophe, misread."""
    if len(run[0]) > 1 or _KANA.match(run[0]) or _MARKS.match(run[0]):
        return False
    return text[max(run.start() - 1, 0) : run.start()].isalpha() or text[run.end() : run.end() + 1].isalpha()


def _natural(run: str, of_kana: bool, of_half: float) -> float:
    kanji = [_is_kanji(character) for character in run]
    usual = len(_KANA.findall(run)) + len(_MARKS.findall(run)) + kanji.count(1)
    rare = kanji.count(2) if of_kana else 0
    return usual + rare + sum(map(len, _HALF_WORD.findall(run))) * of_half


def _is_kanji(character: str) -> int:
    """The level of a kanji, 0 for what is none or is on neither level."""
    if not "一" <= character <= "龠":
        return 0
    try:
        row = character.encode("euc_jp")
    except UnicodeEncodeError:
        return 2  # of IBM's or NEC's choice, as in names
    return 1 if len(row) == 2 and row[0] - 0xA0 < 48 else 2


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError, ValueError):
        return None


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
