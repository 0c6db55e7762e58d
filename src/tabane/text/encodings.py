"""Detection of the encoding of bytes, and their decoding; pure.

What identifies itself comes first: a byte order mark, the escapes of ISO-2022-JP, UTF-8 (chance hardly ever
makes it). Then UTF-16 without a mark, and Shift_JIS and EUC-JP if they read as Japanese does: kana and common
kanji in runs. :func:`decode_strictly` goes no further, since a wrong guess is worse than none for a document.
:func:`decode_leniently` always gives a text: it then tries the encodings that the labels of a page name, and
what its bytes resemble. Labels come last because servers name one encoding for all their files, and templates
keep the ``<meta>`` of years ago.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
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
        decoded = next(filter(None, (decode_with(data, encoding) for encoding in encodings)), None)
        if decoded is not None:
            # Chinese and Korean have their commonest characters where EUC-JP has kanji.
            judged.append((naturalness(decoded.text, with_kana=encodings is _EUC_JP), decoded))
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
    runs = [match for match in FOREIGN.finditer(text) if not match[0].isspace()]
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
        decoded = decode_with(body, encoding)
        if decoded is not None and "\x1b" not in decoded.text:
            return decoded.text
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
        if len(pair) != 2:
            return "\ufffd"
    # The same row and cell of JIS X 0208 in Shift_JIS.
    row, cell = pair[0] - 0xA1, pair[1] - 0xA1
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    trail = cell + (0x9F if row % 2 else 0x40)
    return bytes((lead, trail + (not row % 2 and trail >= 0x7F))).decode("cp932", "replace")


UTF_8: Final = "utf-8"
_HEAD = 1024  # bytes in which HTML wants its label (WHATWG HTML, 13.2.3.2)
_COMPARED = 60_000  # bytes around the first that is not ASCII, by which candidates are compared
_GUESSED = 1 << 17  # bytes at the beginning, from which an encoding is guessed
_CHINESE = ("gb18030", "big5hkscs")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ESCAPES = re.compile(rb"\x1b(?:\$[@B]|\$\([DOPQ]|\(I)")
_FEW = 32  # characters: so short a text is taken for UTF-16 if much of it is ASCII
_LOST = re.compile("[\ufffd\x1b]")
_META = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?\s*([A-Za-z0-9_:.\-]+)""", re.I)
_XML = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9_:.\-]+)""")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_ODD = re.compile(r"[\ufffd\u0080-\u009f\uff61-\uff9f\ue000-\uf8ff\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NO_PAGES = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "undefined"}
_WESTERN = {"cp1252", "latin-1", "iso8859-1", "ascii", "iso8859-15"}
_UTF_16 = {"utf16": "utf-16-le", "unicode": "utf-16-le", "utf16le": "utf-16-le", "utf16be": "utf-16-be"}
_MEANT = {  # what browsers take a label to mean (WHATWG Encoding, 4.2), where Python takes it more narrowly
    "shift_jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "shift-jis": "cp932",
    "windows-31j": "cp932",
    "ms_kanji": "cp932",
    "x-euc-jp": "euc_jp",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "x-user-defined": "cp1252",
    "big5": "big5hkscs",
}


def decode_strictly(data: bytes, encoding: str | None = None) -> Decoded | None:
    """Return the text with ``\\n`` as line ends; None if the bytes are not a text, or may be several.

    ``encoding`` is the one that somebody named. It takes the place of a guess if the text does not identify
    itself.
    """
    if mark := _mark(data):
        decoded = decode_with(data, mark)
        decoded = None if decoded is None or "\0" in decoded.text else decoded
    else:
        decoded = _self_identified(data)
        if decoded is None and encoding is None:
            decoded = _utf16(data) or _japanese(data)
        elif decoded is None and encoding is not None and not is_binary(data):
            decoded = decode_with(data, encoding)
    if decoded is None:
        return None
    return Decoded(decoded.text.replace("\r\n", "\n").replace("\r", "\n"), decoded.encoding)


def decode_leniently(body: bytes, charset: str | None = None, media: str = "") -> str:
    """Return the text of a page; what no encoding reads is U+FFFD.

    ``charset`` is the header's, if it had one. A label inside the text (``<meta charset>``, an XML
    declaration) counts if ``media`` is "" or a kind of HTML or XML. Line ends stay as they are. Never raises.
    """
    if mark := _mark(body):
        return body.decode(mark, "replace")
    if decoded := _utf16(body):
        return decoded.text
    if (wide := _wide(body)) is not None:
        return body.decode(wide, "replace")
    first = _BEYOND_ASCII.search(body)
    if first is None:
        return iso_2022_jp_text(body) if has_escapes(body) else body.decode("ascii")
    if (text := _mostly_utf8(body)) is not None:
        return text
    if decoded := _labeled_utf16(body, charset) or _japanese(body):
        return decoded.text
    sample = body[max(0, first.start() - 16) : first.start() + _COMPARED]
    candidates = _candidates(body, charset, media)
    # UTF-8 is not among them any more: it has been tried. A Western one reads anything, so it must not win
    # over one that reads as Japanese.
    best, least = "cp1252", float("inf")
    for encoding in dict.fromkeys(candidates):
        if encoding.startswith(("utf", "iso2022")):
            continue
        odd = _oddity(_read(sample, encoding), western=encoding in _WESTERN)
        if odd < least - 0.005:
            best, least = encoding, odd
    return _read(body, best)


def is_encoding(name: str) -> bool:
    """Return whether it is the name of an encoding of text. Encodings of bytes, such as base64, are not."""
    try:
        return isinstance(b"".decode(name), str) and isinstance("".encode(name), bytes)
    except (LookupError, ValueError, AssertionError):
        return False


def is_binary(data: bytes) -> bool:
    """Return whether bytes in no known encoding are no text: texts have hardly any control characters."""
    beginning = data[:8192]
    controls = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 or byte == 127 for byte in beginning)
    return controls * 100 > len(beginning)


def _mark(data: bytes) -> str | None:
    """Return the encoding that a byte order mark names."""
    return next((encoding for mark, encoding in _BOMS if data.startswith(mark)), None)


# -- Unicode and ISO-2022-JP -------------------------------------------------------------------------


def _self_identified(data: bytes) -> Decoded | None:
    """Decode ISO-2022-JP, whose bytes are ASCII, or UTF-8."""
    if b"\0" in data:
        return None
    if _ESCAPES.search(data) and data.isascii():
        text = iso_2022_jp_text(data)
        if not _LOST.search(text):
            return Decoded(text, "iso2022_jp")
    decoded = decode_with(data, UTF_8)
    # Nothing but control characters, or many of them: a format of its own that happens to be ASCII.
    return None if decoded is None or is_binary(data) else decoded


def _utf16(data: bytes) -> Decoded | None:
    """Detect UTF-16 without a mark: the zeros of its ASCII are all on one side, and it reads as text."""
    if len(data) < 4 or len(data) % 2:
        return None
    even, odd = data[::2].count(0), data[1::2].count(0)
    if bool(even) == bool(odd) or (len(data) < 2 * _FEW and (even + odd) * 8 < len(data)):
        return None
    encoding = "utf-16-le" if odd else "utf-16-be"
    decoded = decode_with(data, encoding)
    if decoded is None or _CONTROLS.search(decoded.text):
        return None
    if any(unicodedata.category(character) in ("Cn", "Co", "Cs") for character in decoded.text[:SAMPLE]):
        return None
    foreign = "".join(FOREIGN.findall(decoded.text[:SAMPLE]))
    natural = sum(map(_is_of_a_script, foreign))
    return decoded if natural >= len(foreign) * NATURAL else None


def _is_of_a_script(character: str) -> bool:
    """Return whether a character is a usual one of texts. Random bytes would hit all planes equally."""
    code = ord(character)
    return code < 0x1200 or 0x2010 <= code < 0x2700 or 0x3000 <= code < 0x3100 or (
        0x4E00 <= code < 0xA000 or 0xAC00 <= code < 0xD7A4 or 0xFF00 <= code < 0xFFEF or code >= 0x1F300
    )  # fmt: skip


def _wide(body: bytes) -> str | None:
    """Detect UTF-16 without a mark: its markup is full of zeros, all on one side."""
    head = body[:_HEAD]
    if head.count(0) * 10 < len(head) or len(head) < 4:
        return None
    return "utf-16-le" if head[1::2].count(0) >= head[::2].count(0) else "utf-16-be"


def _mostly_utf8(body: bytes) -> str | None:
    """Return the text if it is UTF-8, also if it is cut at its end or has a few broken letters."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(not char.isascii() for char in text[:_COMPARED]) - text[:_COMPARED].count("\ufffd")
    return text if whole and broken <= max(1, whole // 50) else None


def _japanese(data: bytes) -> Decoded | None:
    return None if is_binary(data) else decode_japanese(data)


# -- labels and guesses ------------------------------------------------------------------------------


def _labeled_utf16(body: bytes, charset: str | None) -> Decoded | None:
    """Decode UTF-16 that has neither a mark nor ASCII, by its label."""
    label = (charset or "").strip().lower()
    encoding = _UTF_16.get(label.replace("-", ""))
    decoded = decode_with(body, encoding) if encoding else None
    return None if decoded is None or _CONTROLS.search(decoded.text) else decoded


def _candidates(body: bytes, charset: str | None, media: str) -> Iterator[str]:
    if charset and (name := _known(charset)):
        yield name
    label = _XML.search(body[:_HEAD]) or (
        _META.search(body[:_HEAD]) if (not media or "html" in media or "xml" in media) else None
    )
    if label and (name := _known(label[1].decode("ascii"))):
        yield name
    import cchardet

    guess = cchardet.detect(body[:_GUESSED])["encoding"]
    name = _known(guess) if guess else None
    if name is None or _OF_LATIN_LETTERS.fullmatch(name):
        name = _latin_encoding(body[:_GUESSED], name)
    if _is_korean(body[:_GUESSED]):
        yield "cp949"
    if name:
        yield name
    if name in _CHINESE:  # in a short text, the guess confuses the two
        yield from _CHINESE
    yield from ("cp932", "euc_jp")  # what is left unlabelled is mostly Japanese, and short


_LATIN: Final = ("cp1252", "cp1250", "iso8859-2", "cp1257", "cp1254", "iso8859-15")
"""Encodings of Latin letters, which a guess confuses, the most common ones first."""

_OF_LATIN_LETTERS = re.compile(
    r"cp(?:125[0247]|437|775|850|852|857|858|86[0135])|iso8859-(?:[1-4]|9|1[03-6])|latin.*|mac.*"
)
_ALPHABETS: Final = tuple(
    frozenset(letters + letters.upper())
    for letters in (
        "àèéìíòóùúî",  # Italian
        "àâæçéèêëïîôœùûüÿ",
        "äöüß",
        "áéíóúüñªº¡¿",
        "áâãàçéêíóôõúüªº",
        "åäöæøéü",
        "åäöéšž",
        "ąćęłńóśźż",
        "áčďéěíňóřšťúůýž",
        "áäčďéíĺľňóôŕšťúýž",
        "áéíóöőúüű",
        "čćđšž",
        "ăâîșțşţ",
        "ąčęėįšųūž",
        "āčēģīķļņšūž",
        "äöõüšž",
        "çğıöşüâîû",
        "áéíóúýþæöð",
        "àçéèíïòóúü·",
        "áéíóúàèìòù",
    )
)
_COMMON: Final = frozenset("“”„‘’‚–—…«»°§©®·•€\xa0×½™")  # in texts of all languages
_FITTING = 0.8  # of the letters, in an encoding that is taken although the guess is another one
_PAIR = re.compile(rb"[\xa1-\xfe]{2}")
_HANGUL = 8  # syllables at least
_NOT_SURE = 0.02  # of the letters: the guess stays if no other encoding is better by that


def _latin_encoding(body: bytes, guess: str | None) -> str | None:
    """Return the encoding in which most letters beyond ASCII belong to one alphabet; None if none fits.

    Statistics of bytes confuse these encodings, most of all in short texts. ``guess`` wins if they agree.
    """
    high = _BEYOND_ASCII.findall(body[:_COMPARED])
    if not high or len(high) * 3 > len(body[:_COMPARED]):
        return guess  # of another script
    counts = Counter(high)
    best, most = guess, _FITTING
    if guess in _LATIN:
        most = _latin_share(counts, guess) + _NOT_SURE
    for name in _LATIN:
        share = _latin_share(counts, name)
        if share > most:
            best, most = name, share
    return best


def _is_korean(body: bytes) -> bool:
    """Return whether all bytes beyond ASCII are pairs of EUC-KR, and nearly all of these are Hangul.

    Chinese uses the rows of Hangul and those behind them alike. A guess takes short texts for Big5.
    """
    leads = [pair[0] for pair in _PAIR.findall(body)]
    hangul = sum(0xB0 <= lead <= 0xC8 for lead in leads)
    marks = sum(lead in (0xA1, 0xA2, 0xA3) for lead in leads)
    whole = len(leads) * 2 >= len(_BEYOND_ASCII.findall(body)) - 1
    return whole and hangul >= _HANGUL and hangul >= 0.97 * (len(leads) - marks)


def _latin_share(counts: Mapping[bytes, int], encoding: str) -> float:
    """Return the share of bytes that are letters of the alphabet that fits best, or common marks."""
    letters = Counter[str]()
    for byte, count in counts.items():
        letters[byte.decode(encoding, "replace")] += count
    common = sum(count for letter, count in letters.items() if letter in _COMMON)
    fitting = max(
        sum(count for letter, count in letters.items() if letter in alphabet) for alphabet in _ALPHABETS
    )
    odd = sum(count for letter, count in letters.items() if _ODD.match(letter))
    return (common + fitting - odd) / letters.total()


def _known(label: str) -> str | None:
    """Return Python's name for the meaning of a label in browsers; None if it is no encoding of text."""
    name = label.strip().lower()
    try:
        codec = codecs.lookup(_MEANT.get(name, name))
        b"a".decode(codec.name)
    except (LookupError, ValueError):  # binary codecs are a LookupError too
        return None
    if codec.name in _NO_PAGES:
        return None
    return _MEANT.get(codec.name, codec.name)


def _oddity(text: str, *, western: bool) -> float:
    """Return the share of the letters beyond ASCII that are unusual in running text, 0..1."""
    beyond = [char for char in text if char > "\x7f"]
    if not beyond:
        return 0.0
    odd = len(_ODD.findall(text))
    if western:  # accented letters stand alone among ASCII; a run of them is another encoding's word
        odd += sum(len(run) for run in re.findall(r"[^\x00-\x7f]{3,}", text))
    return min(1.0, odd / len(beyond))


def _read(body: bytes, encoding: str) -> str:
    return euc_jp_text(body) if encoding == "euc_jp" else body.decode(encoding, "replace")
