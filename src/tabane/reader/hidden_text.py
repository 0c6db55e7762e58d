"""Text of Markdown and HTML that no reader of the page sees: its removal, and its count. Pure.

Markdown shows HTML as a browser does, so an element can be hidden there by its attributes and styles. Other
text is in the source alone: comments, titles of links, attributes of tags, definitions that nothing refers
to. It is found in one pass without a parser.

The rules of legibility (contrast between a color and its background, and sizes that nobody can read) are the
same for all formats of documents, so that what is hidden in one is hidden in all.
"""

from __future__ import annotations

import colorsys
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urljoin

from tabane.messages import Message, say
from tabane.text.invisible_characters import ZERO_WIDTH, cleaned

Color = tuple[int, int, int]
"""Red, green and blue, 0..255 each."""

WHITE: Color = (255, 255, 255)
BLACK: Color = (0, 0, 0)

_CONTRAST = 1.2  # of WCAG, 1..21: pale gray (#eee) on white has 1.16, and light gray (#ddd) 1.36
_DIFFERENCE = 32  # of one channel: yellow on white has a low contrast, but everyone sees it
_TINY = 2.0  # points
_FAINT = 0.1  # opacity


def hex_color(text: str | None) -> Color | None:
    """Return the color of six hexadecimal digits, or of eight whose first two are its opacity."""
    digits = (text or "").strip().lstrip("#")
    if len(digits) == 8:
        digits = digits[2:]
    if len(digits) != 6:
        return None
    try:
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    except ValueError:
        return None


def contrast(color: Color, ground: Color) -> float:
    """Return the contrast ratio of WCAG 2: 1 for equal colors, 21 for black on white."""
    lighter, darker = sorted((_luminance(color), _luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def is_unreadable(color: Color | None, ground: Color | None, opacity: float = 1.0) -> bool:
    """Return whether text of this color cannot be seen on this background; False if one is unknown."""
    if opacity < _FAINT:
        return True
    if color is None or ground is None:
        return False
    color = blended(color, opacity, ground)
    if max(abs(one - other) for one, other in zip(color, ground, strict=True)) > _DIFFERENCE:
        return False
    return contrast(color, ground) < _CONTRAST


def is_tiny(points: float | None) -> bool:
    """Return whether letters of this size are too small to be seen as letters."""
    return points is not None and points < _TINY


def blended(color: Color, opacity: float, ground: Color) -> Color:
    """Return the color that a partly transparent one gives on a background."""
    if opacity >= 1:
        return color
    red, green, blue = (
        round(over * opacity + below * (1 - opacity)) for over, below in zip(color, ground, strict=True)
    )
    return red, green, blue


def _luminance(color: Color) -> float:
    red, green, blue = (_linear_channel(channel / 255) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear_channel(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


_NAMES = {
    "control": say("control characters"),
    "direction": say("marks of direction"),
    "tag": say("tag characters"),
    "variation selector": say("variation selectors"),
    "broken": say("half characters"),
    ZERO_WIDTH: say("zero-width characters"),
}


def one_line(text: str | None, most: int = 300) -> str | None:
    """Return a value for front matter: cleaned, on one line, and no longer than a title may be."""
    if not text:
        return None
    line = " ".join(cleaned(text[: most * 8]).text.split())
    return (line if len(line) <= most else f"{line[: most - 1]}…") or None


_FIELD = 300  # characters: commands and paths are shorter


def in_words(message: Message) -> Message:
    """Return a message with its fields cleaned, each on one line and short.

    Messages are outside the fence around a page's text, and their fields may come from the page or a server.
    """
    fields: dict[str, object] = {}
    for name, value in message.fields.items():
        if isinstance(value, Message):
            fields[name] = in_words(value)
        else:
            fields[name] = (
                value if isinstance(value, int | float | None) else one_line(str(value), _FIELD) or ""
            )
    return Message(message.template, **fields)


# These run over up to 20 MB of untrusted text: ambiguous parts are possessive (``*+``) or
# bounded, so that each is linear, and none blocks the other threads.
_FENCE = re.compile(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*+(?P<fence>`{3,}+|~{3,}+)")

# Code is not changed, fenced or inline (inline code only up to a length that people write).
_CODE = (
    r"(?P<code>^[ \t>]*+(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*+(?P<fence>`{3,}+|~{3,}+)[^\n]*+(?:\n|\Z)"
    r"(?s:.*?)(?:^[ \t>]*+(?P=fence)[`~]*+[ \t]*+$|\Z)"
    r"|(?<![`\\])(?P<ticks>`++)(?s:.{1,500}?)(?<!`)(?P=ticks)(?!`))"
)
_COMMENT = r"<!--(?s:.*?)(?:-->|\Z)"
# [//]: # (text) and similar forms: notes that no reader of the page sees.
_COMMENT_NOTE = r"^ {0,3}\[(?://|[Cc]omment|#|_)[^\]\n]*\]:[ \t]*(?:#|<>|<#>)[^\n]*\n?"
_TITLE = r"""(?:"[^"\n]*+"|'[^'\n]*+'|\([^()\n]*+\))?"""
_DESTINATION = rf"\([ \t]*+(?:<[^<>\n]*+>|(?:[^()\s<]|\([^()\s]*+\))*+)[ \t\n]*+{_TITLE}[ \t]*+\)"
_DESTINATION_END = re.compile(_DESTINATION)

# What decides where links are: code, escapes, brackets, and the ends of paragraphs, over which no link goes.
_BRACKETS = re.compile(
    rf"{_CODE}|(?P<escaped>\\[^\n])|(?P<begin>!?\[)|(?P<end>\])(?=(?P<link>\()?)|(?P<gap>\n[ \t>]*+\n)",
    re.MULTILINE,
)

# The label may hold a picture, whose own address comes first: what stands before an address is its bracket.
_ADDRESS = re.compile(
    rf"{_CODE}|(?P<before>(?<!\\)\]\([ \t]*+)(?P<address>[^\s()<>]++)(?=[ \t]*+(?:\)|\n?[\"'(]))"
    r"|(?P<definition>^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*+)(?P<defined>[^\s<>]++)",
    re.MULTILINE,
)
_LEADS_ITSELF = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|#")

_INDENTED = re.compile(r"^(?: {4}|\t)", re.MULTILINE)
_RAW_BLOCK = re.compile(r" {0,3}<(?:pre|script|style|textarea|!--)(?:[\s>]|$|(?<=--))", re.IGNORECASE)
_RAW_BLOCK_END = re.compile(r"</(?:pre|script|style|textarea)>|-->", re.IGNORECASE)
_UNSHOWN = re.compile(f"{_CODE}|{_COMMENT}|{_COMMENT_NOTE}", re.MULTILINE)


def without_comments(markdown: str) -> tuple[str, int]:
    """Return the Markdown without comments, and the number of comments removed. Comments in code are kept."""
    parts: list[str] = []
    count = at = 0
    code = _indented_code(markdown) if _INDENTED.search(markdown) else ()
    while (match := _UNSHOWN.search(markdown, at)) is not None:
        end = match.end()
        if match["code"] is not None:
            parts.append(markdown[at:end])
        elif place := _span_at(code, match.start()):
            end = place
            parts.append(markdown[at:end])
        else:
            parts.append(markdown[at : match.start()])
            count += 1
        at = end
    return "".join([*parts, markdown[at:]]), count


def _indented_code(markdown: str) -> list[tuple[int, int]]:
    """Return the offsets at which runs of indented code begin and end, in order."""
    spans: list[tuple[int, int]] = []
    blank, listed, raw = True, False, False
    fence: str | None = None
    at = 0
    while at < len(markdown):
        end = markdown.find("\n", at) + 1 or len(markdown)
        line = markdown[at:end]
        is_blank = not line.strip()
        before = fence
        indented = blank and not listed and not raw and fence is None and line.startswith(("    ", "\t"))
        if not indented and not raw:
            fence = fence_after(line.rstrip("\n"), fence)
        if before is None and fence is None and not indented:
            raw = _in_raw_block(line, raw)
        if indented and not is_blank:
            if spans and spans[-1][1] == at:
                spans[-1] = spans[-1][0], end
            else:
                spans.append((at, end))
        if not is_blank and not line.startswith((" ", "\t")):
            listed = bool(_ITEM.match(line))
        blank = is_blank or indented
        at = end
    return spans


def _span_at(spans: Sequence[tuple[int, int]], at: int) -> int:
    """Return where the span ends that an offset is in; 0 if it is in none."""
    nth = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return spans[nth][1] if nth >= 0 and at < spans[nth][1] else 0


def _in_raw_block(line: str, raw: bool) -> bool:
    """Return whether a block of HTML that blank lines do not end is open after a line."""
    if raw or _RAW_BLOCK.match(line):
        return _RAW_BLOCK_END.search(line) is None
    return False


def without_links(markdown: str) -> str:
    """Replace links with their text, and images with their alternative text.

    One pass, in which each bracket is seen once: a search for the end of each label could take forever.
    """
    parts: list[str] = []
    open_brackets: list[int] = []  # the parts with brackets that may begin a link
    at = place = 0
    while (match := _BRACKETS.search(markdown, place)) is not None:
        place = match.end()
        if match["begin"] is not None:
            parts += (markdown[at : match.start()], match["begin"])
            open_brackets.append(len(parts) - 1)
            at = place
        elif match["gap"] is not None:
            open_brackets.clear()
            place -= 1  # the line end may begin another gap, or the line of a fence
        elif match["end"] is not None and open_brackets:
            begin = open_brackets.pop()
            end = _DESTINATION_END.match(markdown, place) if match["link"] is not None else None
            if end is not None:
                parts[begin] = ""
                parts.append(markdown[at : match.start()])
                at = place = end.end()
    return "".join([*parts, markdown[at:]])


def with_whole_links(markdown: str, base: str) -> str:
    """Return the Markdown with links and images made absolute against ``base``."""

    def whole(match: re.Match[str]) -> str:
        address = match["address"] or match["defined"]
        if match["code"] is not None or not address or _LEADS_ITSELF.match(address):
            return match.group()
        try:
            return f"{match['before'] or match['definition']}{urljoin(base, address)}"
        except ValueError:
            return match.group()

    return _ADDRESS.sub(whole, markdown)


def fence_after(line: str, fence: str | None) -> str | None:
    """Return the code fence that is open after a line, given the ``fence`` open before it; None for none."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    rest = line[match.end() :]
    if fence is None:
        return None if "`" in match["fence"] and "`" in rest else match["fence"]
    return None if match["fence"].startswith(fence) and not rest.strip() else fence


def warnings_of(removed: Mapping[str, int], comments: int = 0) -> tuple[Message, ...]:
    """Return the warnings about characters that were removed."""
    warnings = []
    if removed:
        total = f"{sum(removed.values()):,}"
        template = ", ".join(f"{{kind{at}}} {{count{at}}}" for at in range(len(removed)))
        fields: dict[str, object] = {}
        for at, (kind, count) in enumerate(sorted(removed.items())):
            fields |= {f"kind{at}": _NAMES[kind], f"count{at}": f"{count:,}"}
        kinds = Message(template, **fields)
        warnings.append(
            say(
                "{count} invisible {count:character was|characters were} removed ({kinds}).",
                count=total,
                kinds=kinds,
            )
        )
    if comments:
        warnings.append(
            say(
                "{count} {count:comment|comments} that the page does not show {count:was|were} removed.",
                count=comments,
            )
        )
    return tuple(warnings)


def hidden_warnings(count: int) -> tuple[Message, ...]:
    """Return the warning about parts of a page that nobody sees, if there were any."""
    if not count:
        return ()
    return (
        say(
            "{count} {count:part|parts} that readers do not see {count:was|were} left out.",
            count=count,
        ),
    )


_LONG = 100  # characters of an attribute or a title that count as a part of their own
_ALT = 300  # characters of the text of an image, as for those of HTML
_CODE_SPAN = 1000  # characters
_STACK = 200  # open elements that are known
_TAGS = 300_000
_RULES = 500  # of style elements
_STYLES = 100_000  # characters of style elements
_MARKED = 2_000  # characters of a declaration
_FAILURES = 2_000_000  # characters that are looked at for tags that do not end

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]{0,40})(?=[\s/>])((?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+)(>?)")
_NEXT = re.compile(r"\n|\\.|`+|<(?=[A-Za-z/!?])")
_ATTRIBUTE = re.compile(r"([^\s\"'<>/=]+)(?:\s*=\s*(\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]+))?")
_BLOCK = re.compile(
    r" {0,3}</?(?:address|article|aside|base|blockquote|body|caption|center|col|colgroup|dd|details|dialog|"
    r"dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|"
    r"legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|pre|script|search|section|style|"
    r"summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|track|ul)(?:[\s>]|/>|$)",
    re.IGNORECASE,
)
_ALONE = re.compile(r" {0,3}</?[A-Za-z][A-Za-z0-9-]{0,40}(?:\s[^<>]{0,2000})?>\s*$")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_DEFINITION = re.compile(
    r" {0,3}\[(?!\^)([^\[\]]{1,999})\]:[ \t]*(<[^<>]*+>|\S++)[ \t]*(\"[^\"]*+\"|'[^']*+'|\([^()]*+\))?[ \t]*$"
)
_NOTE = re.compile(r" {0,3}\[\^([^\[\]\s]{1,200})\]:")
_LABEL = re.compile(r"\[([^\[\]]{1,999})\]")
_TITLED = re.compile(
    r"(\]\([ \t]*+(?:<[^<>\n]*+>|(?:[^()\s<]|\([^()\s]*+\))*+))[ \t\n]++"
    r"(\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\))[ \t]*+\)"
)
_IMAGE = re.compile(r"!\[([^\[\]\n]{301,20000})\](?=\(|\[)")
_SELECTOR = re.compile(r"(?:[a-z][a-z0-9]*)?[.#]?[\w-]+", re.IGNORECASE)

_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
})  # fmt: skip
_SILENT = frozenset({
    "script", "style", "template", "noscript", "title", "desc", "head", "datalist", "link", "meta",
})  # fmt: skip
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "label", "mark",
    "p", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var",
})  # fmt: skip
_ADDRESSES = frozenset({"href", "src", "srcset"})
_KEPT = _ADDRESSES | frozenset({
    "alt", "align", "width", "height", "colspan", "rowspan", "open", "start", "checked", "media",
})  # fmt: skip


class SeenMarkup(NamedTuple):
    """Markdown that readers see, the number of parts that were removed, and whether its end is missing."""

    markdown: str
    hidden: int
    cut: bool = False


def seen_markup(markdown: str) -> SeenMarkup:
    """Return the Markdown without what its readers do not see. Code is not changed."""
    text, hidden, cut = markdown, 0, False
    if re.search(r"(?<!\\)<[A-Za-z/!?]", markdown) is not None:
        scanner = _MarkupScanner(markdown)
        text = scanner.seen()
        hidden, cut = scanner.hidden, scanner.cut
    lines, unused = _without_unused(text)
    text, titles = _without_titles(lines)
    return SeenMarkup(text, hidden + unused + titles, cut)


class _Open(NamedTuple):
    tag: str
    ground: Color | None


class _MarkupScanner:
    """One pass over Markdown that drops hidden elements."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._out: list[str] = []
        self._stack: list[_Open] = []
        self._css = _rules_of(text)
        self._within: str | None = None  # tag of the hidden element that is open
        self._depth = 0
        self._paid = self._tags = 0
        self._block = False  # within a block of HTML, where Markdown is not read
        self.hidden = 0
        self.cut = False

    def seen(self) -> str:
        """Return the text that is seen."""
        text = self._text
        at = 0
        fence: str | None = None
        blank, listed, raw = True, False, False
        while at < len(text) and not self.cut:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end + 1
            line = text[at:end]
            is_blank = not line.strip()
            if is_blank:
                self._block = False
                if self._within in _INLINE:
                    self._within = None
            before = fence
            indented = blank and not listed and not raw and line.startswith(("    ", "\t"))
            if not self._block:
                fence = fence_after(line.rstrip("\n"), fence)
            if before is None and fence is None and not indented:
                raw = _in_raw_block(line, raw)
            if before is not None or fence is not None or (indented and not self._block):
                self._write_text(line)
                at = end
            else:
                if not self._block and (_BLOCK.match(line) or (blank and _ALONE.match(line))):
                    self._block = True
                at = self._take_line(at, end)
            if not is_blank and not line.startswith((" ", "\t")):
                listed = bool(_ITEM.match(line))
            blank = is_blank or (indented and blank)
        return "".join(self._out)

    def _take_line(self, at: int, end: int) -> int:
        """Take a line; return where the next one begins, after tags and code that extend over several."""
        text = self._text
        while at < end:
            match = _NEXT.search(text, at, end)
            if match is None:
                self._write_text(text[at:end])
                return end
            self._write_text(text[at : match.start()])
            mark = match[0]
            at = match.end()
            if mark == "\n":
                self._write_text(mark)
                return at
            if mark == "<":
                at = self._take_markup(match.start())
                if at > end or self.cut:
                    return at if at > end else len(text)
            elif mark[0] == "`" and not self._block:
                close = _closing_ticks(text, at, mark)
                self._write_text(text[match.start() : close])
                if close > end:
                    next_line = text.find("\n", close)
                    end = len(text) if next_line < 0 else next_line + 1
                at = close
            else:
                self._write_text(mark)
        return at

    def _take_markup(self, at: int) -> int:
        """Take a tag; return where it ends."""
        text = self._text
        if text.startswith(("<!", "<?"), at):
            end = text.find("]]>" if text.startswith("<![CDATA[", at) else ">", at, at + _MARKED)
            if end < 0:
                self._count_failures(_MARKED)
                self._write_text("<")
                return at + 1
            return text.index(">", end) + 1
        match = _TAG.match(text, at)
        if match is None or not match[4]:
            self._count_failures(1 if match is None else len(match[0]))
            self._write_text("<")
            return at + 1
        self._take_tag(match)
        return match.end()

    def _count_failures(self, count: int) -> None:
        self._paid += count
        self.cut = self.cut or self._paid > _FAILURES

    def _take_tag(self, match: re.Match[str]) -> None:
        closing, tag = match[1] == "/", match[2].lower()
        self._tags += 1
        self.cut = self.cut or self._tags > _TAGS
        if self._within is not None:
            if tag == self._within and not match[3].endswith("/"):
                self._depth += -1 if closing else 1
                if self._depth == 0:
                    self._within = None
            return
        if closing:
            self._close_tag(tag)
            self._write_text(f"</{match[2]}>")
            return
        text = match[3]
        attributes: dict[str, str] = {}
        for each in _ATTRIBUTE.finditer(text):
            value = each[2] or ""
            if value[:1] in "\"'" and value:
                value = value[1:-1].replace('"', "&quot;")
            attributes.setdefault(each[1].lower(), value)
        ground = self._stack[-1].ground if self._stack else WHITE
        style = self._css.style(tag, attributes)
        own = _ground_of(style, attributes, ground)
        if tag in _SILENT or _is_hidden(tag, attributes, style, own):
            self.hidden += tag not in ("style", "script", "link", "meta")
            if tag not in _VOID and not match[3].endswith("/"):
                self._within, self._depth = tag, 1
            return
        if tag not in _VOID and len(self._stack) < _STACK:
            self._stack.append(_Open(tag, own))
        self._write_text(self._visible_tag(match, attributes))

    def _close_tag(self, tag: str) -> None:
        for nth in range(len(self._stack) - 1, -1, -1):
            if self._stack[nth].tag == tag:
                del self._stack[nth:]
                return

    def _visible_tag(self, match: re.Match[str], attributes: Mapping[str, str]) -> str:
        """Return a tag without the attributes that nobody sees."""
        parts = []
        for name, value in attributes.items():
            if name not in _KEPT:
                self.hidden += len(value) > _LONG and name not in ("style", "class", "d", "points")
                continue
            if name not in _ADDRESSES and len(value) > _ALT:
                value = value[: _ALT - 1].rstrip() + "…"
                self.hidden += 1
            parts.append(f' {name}="{value}"' if value else f" {name}")
        end = "/>" if match[3].rstrip().endswith("/") else ">"
        return f"<{match[2]}{''.join(parts)}{end}"

    def _write_text(self, text: str) -> None:
        if self._within is None:
            self._out.append(text)


def _closing_ticks(text: str, at: int, ticks: str) -> int:
    """Return where a code span ends that begins with these ticks; the place given if it does not end."""
    limit = min(len(text), at + _CODE_SPAN)
    look = at
    while (begin := text.find(ticks, look, limit)) >= 0:
        stop = begin + len(ticks)
        if text[begin - 1] != "`" and text[stop : stop + 1] != "`":
            return stop
        while text[stop : stop + 1] == "`":
            stop += 1
        look = stop
    return at


def _parse_declarations(style: str) -> dict[str, str]:
    declarations = {}
    for rule in style.lower().split(";")[:100]:
        name, colon, value = rule.partition(":")
        if colon:
            declarations[name.strip()] = value.replace("!important", "").strip()
    return declarations


class _SimpleRules:
    """Rules of style elements with simple selectors: a tag, a class or an id."""

    def __init__(self) -> None:
        self._rules: dict[str, dict[str, str]] = {}

    def add(self, selector: str, declarations: dict[str, str]) -> None:
        if len(self._rules) < _RULES:
            self._rules.setdefault(selector, {}).update(declarations)

    def style(self, tag: str, attributes: Mapping[str, str]) -> dict[str, str]:
        """Return the declarations for an element, its own last."""
        declarations: dict[str, str] = {}
        if self._rules:
            names = [tag, "*", *(f".{name}" for name in attributes.get("class", "").lower().split()[:50])]
            names += [tag + name for name in names[2:]]
            if key := attributes.get("id", "").lower():
                names += [f"#{key}", f"{tag}#{key}"]
            for name in names:
                declarations.update(self._rules.get(name, {}))
        if own := attributes.get("style"):
            declarations.update(_parse_declarations(own[:5000]))
        return declarations


def _rules_of(text: str) -> _SimpleRules:
    """Return the rules of the style elements of a text."""
    rules = _SimpleRules()
    at, room = 0, _STYLES
    lower = text.lower() if re.search("<style", text, re.IGNORECASE) else ""
    while lower and room > 0 and (at := lower.find("<style", at)) >= 0:
        begin = lower.find(">", at) + 1
        end = lower.find("</style", begin) if begin else -1
        if not begin or end < 0:
            break
        sheet = lower[begin : min(end, begin + room)]
        for rule in sheet.split("}"):
            selectors, _, declarations = rule.partition("{")
            for selector in selectors.split(",")[:50]:
                if _SELECTOR.fullmatch(selector.strip()):
                    rules.add(selector.strip(), _parse_declarations(declarations))
        room -= len(sheet) + 10
        at = end
    return rules


_LENGTH = re.compile(r"([-+]?\d*\.?\d+)\s*(px|pt|em|rem|%|vw|vh|ex|ch|cm|mm|in)?")
_POINTS = {"px": 0.75, "pt": 1.0, "em": 12.0, "rem": 12.0, "%": 0.12, "cm": 28.35, "mm": 2.835, "in": 72.0}
_CLIPPED = re.compile(
    r"rect\(0(?:px)?[ ,]+0(?:px)?[ ,]+0(?:px)?[ ,]+0(?:px)?\)|rect\(1px[ ,]+1px[ ,]+1px[ ,]+1px\)"
    r"|inset\((?:50|100)%\)|circle\(0"
)


def _length_in_points(value: str | None) -> float | None:
    match = _LENGTH.match(value or "")
    if match is None:
        return None
    return float(match[1]) * _POINTS.get(match[2] or "px", 5.0)


def _is_hidden(
    tag: str, attributes: Mapping[str, str], style: Mapping[str, str], ground: Color | None
) -> bool:
    """Return whether an element is not shown; ``ground`` is its background."""
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    if attributes.get("aria-hidden", "").lower() == "true" or (tag == "dialog" and "open" not in attributes):
        return True
    if tag == "input" and attributes.get("type", "").lower() == "hidden":
        return True
    opacity = _LENGTH.match(style.get("opacity", "1"))
    if (
        style.get("display") == "none"
        or style.get("visibility") in ("hidden", "collapse")
        or style.get("content-visibility") == "hidden"
        or (opacity is not None and float(opacity[1]) < (10 if opacity[2] == "%" else 0.1))
        or re.search(r"scale[xy]?\(0(?:\.0*)?[,)]", style.get("transform", "")) is not None
    ) or _is_away(style):
        return True
    if is_tiny(_length_in_points(style.get("font-size"))):
        return True
    color = _css_color(style.get("color") or (attributes.get("color") if tag == "font" else None))
    return color is not None and (color[1] < 0.1 or is_unreadable(color[0], ground, color[1]))


def _is_away(style: Mapping[str, str]) -> bool:
    """Return whether an element is off the screen, cut away, or without a size."""
    sides = [style.get(side) for side in ("left", "top", "right", "bottom", "text-indent", "margin-left")]
    sides += style.get("margin", "").split()[:4]
    moved = re.findall(r"-\d{3,9}", style.get("transform", "")[:200])
    if moved or any((at := _length_in_points(side)) is not None and at < -200 for side in sides):
        return True
    if _CLIPPED.search(f"{style.get('clip', '')} {style.get('clip-path', '')}"):
        return True
    overflow = style.get("overflow", style.get("overflow-y", ""))
    sizes = [_length_in_points(style.get(name)) for name in ("width", "height", "max-width", "max-height")]
    return overflow.startswith(("hidden", "clip")) and any(size is not None and size < 1 for size in sizes)


def _ground_of(style: Mapping[str, str], attributes: Mapping[str, str], around: Color | None) -> Color | None:
    """Return the background of an element; None if it is not known."""
    background = style.get("background-color") or style.get("background") or attributes.get("bgcolor")
    if not background or background in ("none", "transparent", "inherit"):
        return around
    color = _css_color(background)
    if color is None:
        return None
    return color[0] if color[1] >= 0.5 else around


_NAMED: Mapping[str, Color] = {
    "white": WHITE, "black": (0, 0, 0), "snow": (255, 250, 250), "ivory": (255, 255, 240),
    "whitesmoke": (245, 245, 245), "ghostwhite": (248, 248, 255), "floralwhite": (255, 250, 240),
    "mintcream": (245, 255, 250), "azure": (240, 255, 255), "aliceblue": (240, 248, 255),
    "seashell": (255, 245, 238), "red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255),
    "gray": (128, 128, 128), "grey": (128, 128, 128), "yellow": (255, 255, 0), "navy": (0, 0, 128),
}  # fmt: skip
_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^()]{1,100})\)")


def _css_color(text: str | None) -> tuple[Color, float] | None:
    """Return a color of CSS with its opacity; None if it is not known."""
    text = (text or "").strip().lower()
    if text == "transparent":
        return WHITE, 0.0
    if text.startswith("#"):
        digits = text[1:9].split()[0] if text[1:].strip() else ""
        if len(digits) in (3, 4):
            digits = "".join(digit * 2 for digit in digits)
        color = hex_color(digits[:6])
        try:
            return (color, int(digits[6:8], 16) / 255 if len(digits) == 8 else 1.0) if color else None
        except ValueError:
            return None
    if match := _FUNCTION.match(text):
        name = match[1]
        parts = re.split(r"[\s,/]+", match[2].strip())[:4]
        try:
            values = [float(part.rstrip("%deg")) for part in parts]
        except ValueError:
            return None
        if len(values) < 3 or not all(map(math.isfinite, values)):
            return None
        opacity = 1.0 if len(values) < 4 else values[3] / (100 if parts[3].endswith("%") else 1)
        if name == "hsl":
            channels = colorsys.hls_to_rgb(values[0] % 360 / 360, values[2] / 100, values[1] / 100)
            values = [channel * 255 for channel in channels]
        elif parts[0].endswith("%"):
            values = [value * 2.55 for value in values[:3]]
        red, green, blue = (min(max(round(value), 0), 255) for value in values[:3])
        return (red, green, blue), opacity
    color = _NAMED.get(text.split(" ")[0])
    return (color, 1.0) if color is not None else None


def _without_unused(text: str) -> tuple[str, int]:
    """Return the text without definitions of links and notes that nothing refers to, and their number."""
    lines = text.split("\n")
    defined = [(nth, label) for nth, label in _definition_lines(lines)]
    if not defined:
        return text, 0
    places = {nth for nth, _ in defined}
    used: set[str] = set()
    for nth, line in enumerate(lines):
        if "[" in line:
            labels = [_normal_label(each[1]) for each in _LABEL.finditer(line)]
            used.update(labels[1:] if nth in places else labels)
    gone: set[int] = set()
    count = 0
    for nth, label in defined:
        if label in used:
            continue
        count += 1
        gone.add(nth)
        if label.startswith("^"):
            gone.update(_rest_of_note(lines, nth, places))
    if not gone:
        return text, 0
    return "\n".join(line for nth, line in enumerate(lines) if nth not in gone), count


def _definition_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines with definitions outside code, and their labels."""
    fence: str | None = None
    for nth, line in enumerate(lines):
        before = fence
        fence = fence_after(line, fence)
        if before is not None or fence is not None or "]:" not in line[:1100]:
            continue
        if match := _NOTE.match(line):
            yield nth, f"^{_normal_label(match[1])}"
        elif match := _DEFINITION.match(line):
            yield nth, _normal_label(match[1])


def _rest_of_note(lines: list[str], nth: int, places: set[int]) -> Iterator[int]:
    """Yield the further lines of a note: those of its paragraph, and indented ones."""
    paragraph = True
    for at in range(nth + 1, len(lines)):
        line = lines[at]
        if at in places or (line.strip() and not paragraph and not line.startswith(("    ", "\t"))):
            return
        paragraph = bool(line.strip()) and (paragraph or line.startswith(("    ", "\t")))
        yield at


def _normal_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def _without_titles(text: str) -> tuple[str, int]:
    """Return the text without titles of links, with short texts of images, and the number of long ones."""
    if "](" not in text and "![" not in text and "]:" not in text:
        return text, 0
    count = 0
    fence: str | None = None
    lines = text.split("\n")
    for nth, line in enumerate(lines):
        before = fence
        fence = fence_after(line, fence)
        if before is None and fence is None and "[" in line:
            lines[nth], long = _line_without_titles(line)
            count += long
    return "\n".join(lines), count


def _line_without_titles(line: str) -> tuple[str, int]:
    count = 0

    def left(match: re.Match[str]) -> str:
        nonlocal count
        count += len(match[2]) > _LONG
        return f"{match[1]})"

    def shorter(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"![{match[1][: _ALT - 1].rstrip()}…]"

    if "](" in line and "`" not in line:
        line = _TITLED.sub(left, line)
    if "![" in line:
        line = _IMAGE.sub(shorter, line)
    if (match := _DEFINITION.match(line)) is not None and match[3]:
        count += len(match[3]) > _LONG
        line = line[: match.start(3)].rstrip()
    return line, count
