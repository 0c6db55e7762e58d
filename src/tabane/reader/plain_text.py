"""Plain text of Markdown, and of HTML that takes too long to parse."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

_TAG = re.compile(r"<(!--|[/!?]?[a-zA-Z][a-zA-Z0-9]{0,30})")
# The rest of a tag; a bracket in a quoted value does not end it. Possessive, so that it is linear.
_REST_OF_TAG = re.compile(r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')|=)*+>""")
_UNSEEN = {
    "script": "</script",
    "style": "</style",
    "template": "</template",
    "title": "</title",
    "svg": "</svg",
}
_UNSEEN_WITH_SCRIPTS = {**_UNSEEN, "noscript": "</noscript"}
_HIDING = (
    r"display\s*+:\s*+none|visibility\s*+:\s*+hidden|content-visibility\s*+:\s*+hidden"
    r"|(?:font-size|opacity)\s*+:\s*+(?:0(?![.\d]*[1-9])|\.0)"
    r"|(?<![-\w])(?:left|top|text-indent|margin-left)\s*+:\s*+-\d{3,8}(?!\d)"
    r"|clip-path\s*+:\s*+inset\(\s*+(?:50|100)%"
    r"|clip\s*+:\s*+rect\(\s*+[01](?:px)?\s*+[, )]|scale[xy]?\(\s*+0\s*+[,)]"
)
_HIDES = re.compile(
    r"""\shidden(?=[\s=/]|$)|aria-hidden\s*+=\s*+["']?true|\b(?:sr-only|visually-?hidden)\b|""" + _HIDING
)
_HIDING_BLOCK = re.compile(_HIDING)
_CLASS = re.compile(r"""\sclass\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_ID = re.compile(r"""\sid\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_COMMENT = re.compile(r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?")
_BRACE = re.compile(r"[{}]")
_SIMPLE = re.compile(r"([a-z][a-z0-9]*+)?([.#][-\w]++)?")
_NARROW = re.compile(
    r"print|max-width|max-height|prefers-|portrait|hover\s*+:\s*+none|width\s*+<|@(?!media|layer|supports)"
)
_MOST_NAMES = 20_000
_NAMES = "html body br hr img input link meta area base col embed source track wbr"
_WITHOUT_END = frozenset(_NAMES.split())
_BLOCKS = re.compile(r"p|div|br|li|tr|h[1-6]|section|article|table|[uod]l|d[td]|pre|blockquote|hr")
_TITLE = re.compile(r"<title\b[^<>]*+>([^<]{0,2000}+)", re.IGNORECASE)


class _HiddenNames:
    """Tags, classes and ids that the style sheets within a page hide by rules about nothing else."""

    def __init__(self, lowered: str) -> None:
        self._names: set[str] = set()
        at = 0
        while (begin := lowered.find("<style", at)) >= 0:
            inside = lowered.find(">", begin)
            end = lowered.find("</style", inside) if inside >= 0 else -1
            if end < 0:
                break
            self._read_sheet(_COMMENT.sub("", lowered[inside + 1 : end]))
            at = end

    def hide(self, name: str, attributes: str) -> bool:
        """Return whether a tag with these attributes is hidden."""
        if not self._names:
            return False
        if name in self._names:
            return True
        return any(
            f"{sign}{word}" in self._names or f"{name}{sign}{word}" in self._names
            for sign, pattern in ((".", _CLASS), ("#", _ID))
            if (match := pattern.search(attributes)) is not None
            for word in (match[1] or match[2] or match[3] or "").split()
        )

    def _read_sheet(self, sheet: str) -> None:
        """Read the rules of a sheet: those for other media are skipped, and later ones win."""
        skipped: list[bool] = []
        at = 0
        while brace := _BRACE.search(sheet, at):
            text, at = sheet[at : brace.start()].strip(), brace.end()
            if brace[0] == "}":
                if skipped:
                    skipped.pop()
            elif text.startswith("@"):
                skipped.append(_NARROW.search(text) is not None or any(skipped[-1:]))
            else:
                end = _BRACE.search(sheet, at)
                if end is None or end[0] == "{":
                    skipped.append(any(skipped[-1:]))
                    continue
                if not any(skipped[-1:]):
                    self._add_rule(text.rpartition(";")[2], sheet[at : end.start()])
                at = end.end()

    def _add_rule(self, selectors: str, block: str) -> None:
        hides = _HIDING_BLOCK.search(block) is not None
        if not hides and "display" not in block and "visibility" not in block:
            return
        for selector in selectors.split(","):
            selector = selector.strip()
            if not selector or not _SIMPLE.fullmatch(selector) or selector in ("html", "body"):
                continue
            if not hides:
                self._names.discard(selector)
            elif len(self._names) < _MOST_NAMES:
                self._names.add(selector)


def visible_text(source: str, *, with_scripts: bool = False) -> str:
    """Return all visible text of HTML, one paragraph for each block.

    Invisible text is skipped: scripts, styles, comments, templates and elements hidden by their own
    attributes or by a simple rule of a style sheet within the page. ``with_scripts``: text for browsers
    without scripts is skipped too.
    """
    lowered = source.lower() if len(source.lower()) == len(source) else source
    unseen = _UNSEEN_WITH_SCRIPTS if with_scripts else _UNSEEN
    hidden = _HiddenNames(lowered)
    parts: list[str] = []
    at = 0
    while match := _TAG.search(source, at):
        parts.append(source[at : match.start()])
        at = _offset_behind(match, lowered, unseen, hidden)
        if _BLOCKS.fullmatch(match[1].lower().lstrip("/!?")):
            parts.append("\n")
    parts.append(source[at:])
    lines = (" ".join(line.split()) for line in html.unescape("".join(parts)).split("\n"))
    return "\n\n".join(line for line in lines if line)


def title_of(source: str) -> str | None:
    """Return the title in the head of a page, in one line."""
    match = _TITLE.search(source[:200_000])
    return " ".join(html.unescape(match[1]).split())[:500] or None if match else None


def _offset_behind(tag: re.Match[str], lowered: str, unseen: dict[str, str], hidden: _HiddenNames) -> int:
    """Return the offset where the text continues: after a tag, or after the element that it hides."""
    name = tag[1].lower()
    if name == "!--":
        end = lowered.find("-->", tag.end())
        return end + 3 if end >= 0 else len(lowered)
    rest = _REST_OF_TAG.match(lowered, tag.end())
    if rest is None:
        return len(lowered)
    if end_tag := unseen.get(name):
        end = lowered.find(end_tag, rest.end())
        closing = lowered.find(">", end) if end >= 0 else -1
        return closing + 1 if closing >= 0 else len(lowered)
    if name[0] not in "/!?" and _is_hidden(name, rest[0][:-1], hidden):
        return _end_of(name, lowered, rest.end())
    return rest.end()


def _is_hidden(name: str, attributes: str, hidden: _HiddenNames) -> bool:
    """Return whether a tag hides its contents, unless a script may show them later."""
    if name in _WITHOUT_END:
        return False
    return _HIDES.search(attributes) is not None or hidden.hide(name, attributes)


def _end_of(name: str, lowered: str, begin: int) -> int:
    """Return where an element ends; the end of the text if it has no end tag."""
    tags = re.compile(rf"<(/?){name}(?=[\s/>])")
    depth, at = 1, begin
    while match := tags.search(lowered, at):
        rest = _REST_OF_TAG.match(lowered, match.end())
        if rest is None:
            break
        at = rest.end()
        depth += -1 if match[1] else 1
        if not depth:
            return at
    return len(lowered)


# As in cleaning: possessive or bounded, because the input is untrusted.
_FENCE = re.compile(r"^([ >]*+)(`{3,}+|~{3,}+)[^`\n]*+$")
_RULE = re.compile(r"^\s*+(?:(?:-\s*+){3,}+|(?:\*\s*+){3,}+|(?:_\s*+){3,}+)$")
_TABLE_RULE = re.compile(r"^\s*+\|?(?:\s*+:?-{3,}+:?\s*+\|)++(?:\s*+:?-{3,}+:?\s*+)?$")
_HEADING = re.compile(r"^( {0,3})#{1,6}[ \t]+")
_QUOTE = re.compile(r"^(?:\s*+>[ \t]?)++")
_NOTE = re.compile(r"^\[\^([^\]\s]{1,40})\]:\s*")
_HELD_BACK = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`++)(.{1,500}?)(?<!`)\2(?!`)")
_IMAGE = re.compile(
    r"!\[((?:[^\[\]\\]|\\.){0,1000}+)\]\((?:<[^<>\n]{0,3000}+>|(?:[^()\s]|\([^()\s]*+\)){0,3000}+)\s*+(?:\"[^\"\n]*+\")?\)"
)
_LINK = re.compile(
    r"(?<!\\)\[((?:[^\[\]\\]|\\.|\[[^\[\]]{0,500}+\]){0,3000}+)\]"
    r"\((?:<[^<>\n]{0,3000}+>|(?:[^()\s]|\([^()\s]*+\)){0,3000}+)\s*+(?:\"[^\"\n]*+\")?\)"
)
_AUTO = re.compile(r"<((?:https?|mailto|ftp):[^\s<>]{1,3000})>")
_STRONG = re.compile(r"(?<!\\)(\*\*|~~)(?=\S)(.{1,500}?)(?<=[^\s\\])\1")
_EM = re.compile(r"(?<![\\*])\*(?=[^\s*])([^*]{1,500}?)(?<=[^\s\\])\*(?!\*)")
_UNDERSCORED = re.compile(r"(?<![\\\w])(__?)(?=\S)(.{1,500}?)(?<=[^\s\\])\1(?!\w)")
_HELD = re.compile("\x02(\\d+)\x03")
_MARKED = re.compile("[\\\\`\\[<*~_\x02\x03]")
_LONG = 10_000  # characters of a line that are looked at together


def plain(markdown: str) -> str:
    """Return the text of Markdown: words, lists and lines of code are kept, marks and addresses removed.

    Numbers and bullets of lists are kept, because they show the structure; tabs divide the cells of a table.
    """
    return "\n".join(_plain_lines(markdown)).strip("\n")


def _plain_lines(markdown: str) -> Iterator[str]:
    fence = ""
    for line in markdown.split("\n"):
        match = _FENCE.match(line) if line else None
        if not line:
            yield line
        elif fence:
            if match and match[2].startswith(fence) and line.strip(" >").strip(fence[0]) == "":
                fence = ""
            else:
                yield line
        elif match:
            fence = match[2]
        elif _TABLE_RULE.match(line) and "|" in line:
            continue
        elif not _RULE.match(line):
            yield _without_marks(line)


def _without_marks(line: str) -> str:
    line = _QUOTE.sub("", line)
    line = _HEADING.sub("", line)
    line = _NOTE.sub(r"\1. ", line)
    row = line.strip()
    if len(row) > 1 and row.startswith("|") and row.endswith("|"):
        cells = re.split(r"(?<!\\)\|", row[1:-1])
        return "\t".join(_plain_inline(cell.strip()) for cell in cells)
    if len(line) <= _LONG:
        return _plain_inline(line).rstrip()
    return "".join(_plain_inline(line[at : at + _LONG]) for at in range(0, len(line), _LONG)).rstrip()


def _plain_inline(line: str) -> str:
    """Return a line without its marks. Escapes and code are taken out first: in them, marks are letters."""
    if _MARKED.search(line) is None:
        return line  # most cells of a large table
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[1] or match[3].strip() or match[3])
        return f"\x02{len(held) - 1}\x03"

    line = _HELD_BACK.sub(hold, line.replace("\x02", "").replace("\x03", ""))
    line = _IMAGE.sub(r"\1", line)
    line = _LINK.sub(r"\1", _LINK.sub(r"\1", line))
    line = _AUTO.sub(r"\1", line)
    line = _STRONG.sub(r"\2", line)
    line = _EM.sub(r"\1", line)
    line = _UNDERSCORED.sub(r"\2", line)
    line = re.sub(r"\[\^([^\]\s]{1,40})\]", r"[\1]", line)
    return _HELD.sub(lambda found: held[int(found[1])], line)
