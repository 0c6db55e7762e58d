"""Mails (message/rfc822, mbox) as pages: their headers, the text that people see, and their attachments.

Of alternatives, HTML is read: it is what mail programs show.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message as Mail
from email.utils import parsedate_to_datetime

from tabane.messages import Message, say
from tabane.reader.formats.article_html import seen_html
from tabane.reader.formats.text import LONGEST, bounded, broken, first_line, unix
from tabane.reader.hidden_text import hidden_warnings
from tabane.reader.markdown import spans
from tabane.reader.page import Page
from tabane.text.encodings import decode_leniently, decode_with, is_encoding, iso_2022_jp_text

_MAIL = say("email message")
_HEADERS = ("From", "To", "Cc", "Reply-To", "Date")
_HEADER = 2_000  # characters of one that are shown
_PARTS = 300  # of a mail with those that are in it
_DEEPEST = 5  # mails within mails
_HTML = 2_000_000  # characters of a part
_MAILS = 100  # of a mailbox
_MAILBOX = 20_000_000  # bytes of a mailbox that are read
_WORD = re.compile(r"=\?([^?\s]{1,60})\?([BbQq])\?([^?]{0,5000})\?=(?:\s+(?==\?[^?\s]{1,60}\?[BbQq]\?))?")
_SEPARATOR = re.compile(rb"(?:\A|(?<=\n))From [^\n]{1,500}\n(?=[\w-]{1,80}:)")
_QUOTED = re.compile(r"((?:> ?)*)(.*)")
_LOOSE = frozenset(
    {"", "ascii", "us-ascii", "iso-8859-1", "gb2312", "shift_jis", "ks_c_5601-1987", "unknown-8bit"}
)
"""Labels that mean more than they say, which lenient decoding knows."""


def mail_page(body: bytes, url: str) -> Page:
    """Return a mail, or the mails of a mailbox one below the other. Raises ReadError, ``broken``."""
    starts = list(_SEPARATOR.finditer(body[:_MAILBOX])) if body.startswith(b"From ") else []
    ends = [*(each.start() for each in starts[1:]), min(len(body), _MAILBOX)]
    mails = [body[start.end() : end] for start, end in zip(starts, ends, strict=False)] or [body]
    reader = _MailReader(url)
    try:
        parsed = [message_from_bytes(each) for each in mails[:_MAILS]]
        for mail in parsed:
            reader.add(mail, titled=len(mails) > 1)
    except RecursionError:
        raise broken(_MAIL, say("it is nested too deeply")) from None
    if not any(parsed[0].get(name) for name in ("From", "Date", "Subject", "To", "Received", "Content-Type")):
        raise broken(_MAIL, say("it has no headers"))
    text, cut = bounded("\n\n".join(reader.parts))
    warnings: list[Message] = list(hidden_warnings(reader.hidden))
    if reader.full:
        warnings.append(say("The page is larger than the limit, so its end is missing."))
    if len(mails) > _MAILS or (len(body) > _MAILBOX and starts):
        warnings.append(
            say(
                "Only the first {count} {count:message|messages} of the mailbox {count:is|are} shown.",
                count=len(parsed),
            )
        )
    single = parsed[0] if len(mails) == 1 else None
    return Page(
        url,
        text,
        title=first_line(_header(single, "Subject")) if single is not None else None,
        author=first_line(_header(single, "From")) if single is not None else None,
        date=_date(single) if single is not None else None,
        way="mail",
        media_type="message/rfc822" if single is not None else "application/mbox",
        warnings=(*warnings, *cut),
    )


@dataclass(slots=True)
class _MailReader:
    """Writes mails as Markdown into ``parts``. ``hidden`` counts parts of HTML that nobody sees."""

    url: str
    parts: list[str] = field(default_factory=list)
    hidden: int = 0
    full: bool = False
    _count: int = 0
    _length: int = 0

    def add(self, mail: Mail, *, titled: bool, depth: int = 0) -> None:
        """Add a mail: its headers, its text, and a list of its attachments."""
        subject = spans.inline(_header(mail, "Subject"))
        if titled or subject:
            self._write(f"{'##' if titled else '#'} {spans.heading(subject) or '–'}")
        lines = [
            f"- **{name}:** {spans.inline(value)}" for name in _HEADERS if (value := _header(mail, name))
        ]
        self._write("\n".join(lines))
        attached: list[str] = []
        todo = [mail]
        while todo:
            part = todo.pop()
            self._count += 1
            if self._count > _PARTS or self._length > LONGEST:
                self.full = True
                break
            kind = part.get_content_type()
            if kind == "multipart/alternative":
                todo += _alternative(part)
            elif kind == "multipart/related" and (inner := _parts_of(part)):
                root = _root_of(part, inner)
                todo.append(root)
                attached += [_attachment(each, each.get_content_type()) for each in inner if each is not root]
            elif part.is_multipart() and kind != "message/rfc822":
                todo += reversed(_parts_of(part))
            elif kind == "message/rfc822" and (inner := _parts_of(part)):
                if depth < _DEEPEST:
                    self.add(inner[0], titled=True, depth=depth + 1)
                else:
                    attached.append(f"- {kind}")
            elif kind in ("text/plain", "text/html") and part.get_content_disposition() != "attachment":
                self._write(self._text(part, kind))
            else:
                attached.append(_attachment(part, kind))
        if attached:
            self._write("**Attachments:**\n\n" + "\n".join(attached))

    def _write(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self._length += len(text)

    def _text(self, part: Mail, kind: str) -> str:
        charset = str(part.get_param("charset", "") or "").strip().lower()
        text = _decoded(_payload(part), charset, kind)
        if kind == "text/html":
            markdown, hidden = seen_html(text[:_HTML], self.url)
            self.full = self.full or len(text) > _HTML
            self.hidden += hidden
            return markdown
        return _plain_markdown(
            unix(text[:LONGEST]), flowed=str(part.get_param("format", "")).lower() == "flowed"
        )


def _parts_of(part: Mail) -> list[Mail]:
    inner = part.get_payload()
    return [each for each in inner if isinstance(each, Mail)] if isinstance(inner, list) else []


def _alternative(part: Mail) -> list[Mail]:
    """Return the alternative that is read: the last one with HTML, else the last with text, else the last."""
    inner = _parts_of(part)
    rich = ("text/html", "multipart/related", "multipart/mixed", "multipart/alternative")
    for wanted in (rich, ("text/plain",)):
        if found := [each for each in inner if each.get_content_type() in wanted]:
            return found[-1:]
    return inner[-1:]


def _root_of(part: Mail, inner: list[Mail]) -> Mail:
    """Return the part of a multipart/related that is shown (RFC 2387); the others are only for it."""
    start = str(part.get_param("start", "") or "").strip()
    return next((each for each in inner if start and each.get("Content-ID", "").strip() == start), inner[0])


def _attachment(part: Mail, kind: str) -> str:
    name = " ".join(_words(str(part.get_filename() or "")).split())[:300]
    size = len(_payload(part))
    return f"- {spans.inline(name) or '–'} ({kind[:100]}, {size:,} bytes)"


def _plain_markdown(text: str, *, flowed: bool) -> str:
    """Return plain text as Markdown: only its marks of quotation are marks."""
    if flowed:  # RFC 3676: a line that ends in a space goes on, but the mark of a signature does not
        text = re.sub(r"(?<!^--) \n(?![> \n])", " ", text, flags=re.M)
    lines = (_QUOTED.fullmatch(line) for line in text.strip("\n").split("\n"))
    return "\n".join(
        match[1] + spans.lines(spans.inline(match[2].rstrip())) for match in lines if match is not None
    )


# -- headers and encodings ---------------------------------------------------------------------------


def _header(mail: Mail, name: str) -> str:
    """Return a header in one line, decoded; "" if it is missing. A date is ISO 8601, if it is one."""
    if name == "Date":
        return _date(mail) or ""
    raw = next((value for key, value in mail.raw_items() if key.lower() == name.lower()), "")
    return " ".join(_words(str(raw)[: 4 * _HEADER]).split())[:_HEADER]


def _words(text: str) -> str:
    """Return a header with its encoded words (RFC 2047) and its bytes beyond ASCII decoded."""
    data = text.encode("utf-8", "surrogateescape")
    text = decode_leniently(data) if not text.isascii() else text
    parts: list[str] = []
    at = 0
    pending, label = b"", ""
    for match in _WORD.finditer(text):
        charset = match[1].partition("*")[0].lower()
        if match.start() > at or charset != label:
            parts.append(_decoded(pending, label))
            pending = b""
        parts.append(text[at : match.start()])
        # A character may be divided between two words.
        pending, label = pending + _unpacked(match[3], match[2]), charset
        at = match.end()
    return "".join((*parts, _decoded(pending, label), text[at:]))


def _unpacked(text: str, form: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if form in "Qq":
        return quopri.decodestring(data, header=True)
    try:
        return base64.b64decode(data + b"=" * (-len(data) % 4))
    except binascii.Error:
        return data


def _date(mail: Mail) -> str | None:
    try:
        return parsedate_to_datetime(str(mail.get("Date", ""))[:200]).isoformat()
    except (ValueError, TypeError, IndexError):
        return None


def _payload(part: Mail) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _decoded(data: bytes, charset: str, media: str = "") -> str:
    """Return text in the encoding that a mail names; programs for mail name it rightly, unlike servers."""
    if charset.startswith("iso-2022-jp"):
        return iso_2022_jp_text(data)
    if charset not in _LOOSE and is_encoding(charset) and (decoded := decode_with(data, charset)):
        return decoded.text
    return decode_leniently(data, charset or None, media)
