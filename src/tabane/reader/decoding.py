"""Character encodings: bytes to text, whatever their label says.

A label is trusted after the bytes have been looked at: servers name an encoding for all their files, and
templates keep the ``<meta>`` of years ago. UTF-8 is hardly ever valid by accident, so it goes before every
label; for the rest each candidate is decoded, and the one that reads best is taken, labels first.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_HEAD = 1024  # bytes in which HTML wants its label (WHATWG HTML, 13.2.3.2)
_SAMPLE = 60_000  # bytes around the first that is not ASCII, by which candidates are compared
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?\s*([A-Za-z0-9_:.\-]+)""", re.I)
_XML = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9_:.\-]+)""")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_ESCAPED = re.compile(rb"\x1b(?:\$[@B]|\$\([DOPQ]|\([BJI])")
_ODD = re.compile(r"[\ufffd\u0080-\u009f\uff61-\uff9f\ue000-\uf8ff\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NO_PAGES = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "undefined"}
_WESTERN = {"cp1252", "latin-1", "iso8859-1", "ascii", "iso8859-15"}
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
    "unicode": "utf-16-le",
    "utf-16": "utf-16-le",
    "x-user-defined": "cp1252",
    "big5": "big5hkscs",
}


def decoded(body: bytes, charset: str | None = None, media: str = "") -> str:
    """Return the text of ``body``; what no encoding reads is U+FFFD. ``charset`` is the header's, if it
    had one.

    A label inside the text (``<meta charset>``, an XML declaration) counts where ``media`` is "" or a kind
    of HTML or XML. Never raises.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    if (wide := _wide(body)) is not None:
        return body.decode(wide, "replace")
    first = _BEYOND_ASCII.search(body)
    if first is None:
        return _japanese_mail(body) if _ESCAPED.search(body) else body.decode("ascii")
    if (text := _utf8(body)) is not None:
        return text
    sample = body[max(0, first.start() - 16) : first.start() + _SAMPLE]
    return _read(body, _best(sample, _candidates(body, charset, media)))


def _wide(body: bytes) -> str | None:
    """UTF-16 without a mark: its markup is full of zeros, on one side."""
    head = body[:_HEAD]
    if head.count(0) * 10 < len(head) or len(head) < 4:
        return None
    return "utf-16-le" if head[1::2].count(0) >= head[::2].count(0) else "utf-16-be"


def _utf8(body: bytes) -> str | None:
    """Return the text where it is UTF-8, cut at its end or with a few broken letters in it; else None."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(not char.isascii() for char in text[:_SAMPLE]) - text[:_SAMPLE].count("\ufffd")
    return text if whole and broken <= max(1, whole // 50) else None


def _candidates(body: bytes, charset: str | None, media: str) -> Iterator[str]:
    if charset and (known := _known(charset)):
        yield known
    label = _XML.search(body[:_HEAD]) or (_META.search(body[:_HEAD]) if _marked_up(media) else None)
    if label and (known := _known(label[1].decode("ascii"))):
        yield known
    from resiliparse.parse.encoding import detect_encoding

    found = detect_encoding(body, html5_compatible=True)
    if found and (known := _known(found)):
        yield known
    yield from ("cp932", "euc_jp")  # what is left unlabelled is mostly Japanese, and short


def _marked_up(media: str) -> bool:
    return not media or "html" in media or "xml" in media


def _known(label: str) -> str | None:
    """Python's name for what browsers take a label to mean; None if it is not an encoding of text."""
    name = label.strip().lower()
    try:
        codec = codecs.lookup(_MEANT.get(name, name))
        b"a".decode(codec.name)
    except (LookupError, ValueError):  # binary codecs are a LookupError too
        return None
    if codec.name in _NO_PAGES:
        return None
    return _MEANT.get(codec.name, codec.name)


def _best(sample: bytes, candidates: Iterator[str]) -> str:
    """Return the candidate that reads with the fewest odd characters, the earlier one where two are equal.

    UTF-8 is not among them any more: it has been tried. A Western one reads anything, so it must not win
    over one that reads as Japanese.
    """
    best, least = "cp1252", float("inf")
    for encoding in dict.fromkeys(candidates):
        if encoding.startswith(("utf", "iso2022")):
            continue
        odd = _oddity(_read(sample, encoding), western=encoding in _WESTERN)
        if odd < least - 0.005:
            best, least = encoding, odd
    return best


def _oddity(text: str, *, western: bool) -> float:
    """Return the share of the letters beyond ASCII that running text does not have, 0..1."""
    beyond = [char for char in text if char > "\x7f"]
    if not beyond:
        return 0.0
    odd = len(_ODD.findall(text))
    if western:  # accented letters stand alone among ASCII; a run of them is another encoding's word
        odd += sum(len(run) for run in re.findall(r"[^\x00-\x7f]{3,}", text))
    return min(1.0, odd / len(beyond))


def _read(body: bytes, encoding: str) -> str:
    if encoding == "euc_jp":
        return "".join(map(_euc, body.splitlines(keepends=True)))
    return body.decode(encoding, "replace")


def _euc(line: bytes) -> str:
    """EUC-JP as Windows wrote it, with the circled numbers and name characters that the standard lacks."""
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
    """Return the same row and cell of JIS X 0208 as Shift_JIS writes it."""
    row, cell = pair[0] - 0xA1, pair[1] - 0xA1
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    trail = cell + (0x9F if row % 2 else 0x40)
    return bytes((lead, trail + (not row % 2 and trail >= 0x7F)))


def _japanese_mail(body: bytes) -> str:
    """ISO-2022-JP, with the rows and half-width kana that mail programs put into it."""
    parts: list[bytes] = []
    shift, at = b"(B", 0
    for escape in _ESCAPED.finditer(body):
        parts.append(_unescaped(body[at : escape.start()], shift))
        shift, at = escape[0][1:], escape.end()
    parts.append(_unescaped(body[at:], shift))
    return _read(b"".join(parts), "euc_jp")


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
