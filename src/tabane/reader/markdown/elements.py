"""Elements of HTML by their role: blocks, headings, silent ones, those that carry meaning without text.

Elements without text (pictures, players, link cards, formulas, check boxes) are kept by the pruning of a page
and written by the converter. What is not in that list is removed from a page if it has no text. Also the
addresses in elements. The elements are lxml's.

Code blocks have their lines as written, and their language if the page names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

from lxml.etree import iterwalk
from lxml.html import HtmlElement

from tabane.reader.markdown import spans

Element = Any

EMPTY = frozenset(("br", "hr", "wbr", "td", "th", "col", "colgroup"))
"""Elements that have a meaning when empty, wherever they are."""

PLAYERS = ("iframe", "video", "audio", "embed", "object")
"""Elements that show something from another address."""

_EMBEDDED = re.compile(
    r"youtube|youtu\.be|vimeo|nicovideo|bilibili|dailymotion|twitch\.tv|loom\.com|wistia|ted\.com"
    r"|speakerdeck|slideshare|docs\.google\.com|google\.[a-z.]+/maps|openstreetmap|soundcloud|spotify"
    r"|bandcamp|podcasts\.apple|codepen|jsfiddle|codesandbox|stackblitz|replit|observablehq|figma\.com"
    r"|datawrapper|flourish|infogram|tableau|archive\.org|gist\.github|embed\.ly|/embed/|player",
    re.IGNORECASE,
)
_CARDS = re.compile(
    r"//(?:embed\.zenn\.studio|[\w.-]*hatenablog-parts\.com|cdn\.embedly\.com|[\w.-]*iframe(?:ly\.com|\.ly))/",
    re.IGNORECASE,
)
_WIDGETS = re.compile(
    r"doubleclick|googlesyndication|googletagmanager|google-analytics|adservice|adsystem|\bads?\b|advert|sponsor"
    r"|recaptcha|hcaptcha|turnstile|/plugins/(?:like|share|follow|page)|disqus|addthis|sharethis|cookie|consent"
    r"|onetrust|chat|newsletter|signup|subscribe|広告",
    re.IGNORECASE,
)
_MOST = 3_000  # characters of an address
_SOURCES = 20  # of a player or a picture


def speaks(element: Element) -> bool:
    """Return whether an element carries meaning without text."""
    judge = WORDLESS.get(element.tag)
    return judge(element) if judge is not None else bool(element.get("data-tex"))


def is_formula(script: Element) -> bool:
    """Return whether a script is the source of a formula, as MathJax 2 reads it."""
    return str(script.get("type", "")).startswith("math/tex")


def is_formula_image(image: Element) -> bool:
    """Return whether an image shows a formula, by its class. Its description is the source then."""
    return _FORMULA_IMAGE.search(image.get("class") or "") is not None


def is_task_box(box: Element) -> bool:
    """Return whether an input is the check box of a task in a list."""
    return box.get("type") == "checkbox" and next(box.iterancestors("li"), None) is not None


def embedded_address(element: Element) -> str | None:
    """Return the address of a player or frame as the page has it; for a link card, that of its page."""
    for name in ("src", "data", "data-src"):
        if (where := element.get(name)) and not where.startswith(("about:", "javascript:", "data:")):
            return _of_card(element, where)
    if element.get("data-content"):
        return _of_card(element, "")
    sources = (source.get("src") for source in islice(element.iter("source"), _SOURCES))
    return next((source for source in sources if source), None)


def is_embedded(element: Element, where: str) -> bool:
    """Return whether a frame shows content, rather than an advertisement or a widget.

    ``where`` is its embedded address. Other players always show content.
    """
    if element.tag != "iframe":
        return True
    if _EMBEDDED.search(where) or is_card(element):
        return True
    words = element.get("title") or element.get("aria-label")
    return bool(words) and not _WIDGETS.search(f"{words} {where}")


def is_card(element: Element) -> bool:
    """Return whether a frame is a link card: it shows a page's title as a link to it."""
    return bool(element.get("data-content") or _CARDS.search(str(element.get("src", ""))[:_MOST]))


def _of_card(element: Element, where: str) -> str | None:
    """Return the address that a link card leads to; ``where`` if this is not one."""
    if not is_card(element):
        return where[:_MOST] or None
    linked = unquote(str(element.get("data-content", ""))[:_MOST])
    try:
        linked = linked or next(iter(parse_qs(urlsplit(where[:_MOST]).query).get("url", ())), "")
    except ValueError:
        return where[:_MOST] or None
    return linked if linked.startswith(("https://", "http://")) else where[:_MOST] or None


def _has_player(element: Element) -> bool:
    where = embedded_address(element)
    return (
        where is not None
        and not any(
            re.fullmatch(r"\s*[01](?:px)?\s*", element.get(side) or "") for side in ("width", "height")
        )
        and is_embedded(element, where)
    )


def _is_always(_element: Element) -> bool:
    return True


def _of_picture(source: Element) -> bool:
    parent = source.getparent()
    return parent is not None and parent.tag == "picture"


def _shows_a_picture(noscript: Element) -> bool:
    """Return whether it has the picture for browsers without scripts."""
    before = noscript.getprevious()
    return before is not None and before.tag == "img" and next(noscript.iter("img"), None) is not None


WORDLESS: Mapping[str, Callable[[Element], bool]] = {
    "img": _is_always,
    "math": _is_always,
    "input": is_task_box,
    "script": is_formula,
    "source": _of_picture,
    "noscript": _shows_a_picture,
    **dict.fromkeys(PLAYERS, _has_player),
}
"""Elements that may carry meaning without text, and what decides whether one does."""

_OPENED = ("http://", "https://", "mailto:", "tel:", "ftp://")
_LAZY = (
    "data-src",
    "data-original",
    "data-lazy-src",
    "data-lazy",
    "data-actualsrc",
    "data-url",
    "data-image",
)
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_FORMULA_IMAGE = re.compile(r"\b(?:latex|tex|math|mwe-math-fallback-image-\w+)\b")
_PLACEHOLDER = re.compile(
    r"(?:^data:|\b(?:blank|spacer|pixel|1x1|transparent|placeholder|lazy)\b[^/]*$)", re.I
)
_TRACKER = re.compile(
    r"//(?:[^/]*\.)?(?:doubleclick\.net|google-analytics\.com|googletagmanager\.com|scorecardresearch\.com|"
    r"pixel\.wp\.com|stats\.wp\.com|quantserve\.com|hatena\.com/bookmark|bat\.bing\.com)/|facebook\.com/tr\b",
    re.I,
)
_MOST_WHITE = 1_000
_MOST_SOURCES = 20  # of a picture
_MOST_OF_SET = 20_000  # characters
_IN_SET = re.compile(r"(?<![^\s,])([^\s,]\S*[^\s,])(?:\s++([\d.]++)[wx])?+\s*+(?:,|$)")
_WIDEST = 1600  # pixels: a larger one of a set is for printing


def address(href: str | None, base: str) -> str | None:
    """``href`` as an absolute URL; None if it has no target, or only a fragment of the same page."""
    if href and not href.isprintable():
        href = re.sub(r"[\x00-\x1f\x7f]", "", href)
    if not href or not (href := href.strip()) or href.startswith("#"):
        return None
    try:
        whole = href if href.startswith(("http://", "https://")) else urljoin(base, href)
        if "[" in whole:
            urlsplit(whole)
    except ValueError:  # urlsplit raises it for brackets in a host
        return None
    if not whole.lower().startswith(_OPENED) or (
        "#" in whole and whole.partition("#")[0] == base.partition("#")[0]
    ):
        return None
    url = re.sub(r"[\s<>]", lambda char: "".join(f"%{byte:02X}" for byte in char[0].encode()), whole)
    if _is_balanced(url):
        return url
    return url.replace("(", "%28").replace(")", "%29")


def _is_balanced(url: str) -> bool:
    depth = 0
    for char in re.findall(r"[()]", url) if "(" in url or ")" in url else "":
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def image(element: HtmlElement, base: str) -> str | None:
    """Return the URL of an ``<img>``; None for tracking pixels and placeholders."""
    sizes = [pixels(element, side) for side in ("width", "height")]
    if any(size is not None and size <= 2 for size in sizes):
        return None
    for source in _sources(element):
        if not _PLACEHOLDER.search(source) and (whole := address(source, base)):
            return whole if whole.startswith("http") and not _TRACKER.search(whole) else None
    return None


def _sources(element: HtmlElement) -> list[str]:
    """Return the possible addresses of the image, likeliest first: those for lazy loading, then ``src``."""
    addresses = [element.get(name) for name in _LAZY]
    addresses.append(element.get("src"))
    addresses.extend(_of_set(element.get(name)) for name in _SETS)
    picture = next(element.iterancestors("picture"), None)
    for source in islice(picture.iter("source"), _MOST_SOURCES) if picture is not None else ():
        addresses.extend(_of_set(source.get(name)) for name in _SETS)
    return [source.strip() for source in addresses if source]


def _of_set(srcset: str | None) -> str | None:
    """Return the widest image of a ``srcset`` that is not too wide; its first if it has no widths."""
    best, width = None, -1.0
    for source, size in _IN_SET.findall((srcset or "")[:_MOST_OF_SET]):
        wide = float(size) if re.fullmatch(r"\d+(\.\d+)?", size) else 0.0
        if width < wide <= _WIDEST:
            best, width = source, wide
    return best


def pixels(element: HtmlElement, side: str) -> float | None:
    """Return the attribute ``width`` or ``height`` in pixels."""
    match = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,4})?)\s*(?:px)?\s*", element.get(side) or "")
    return float(match[1]) if match else None


def decorative(element: HtmlElement) -> bool:
    """Return whether an image without words for it is an icon."""
    small = [pixels(element, side) or 999.0 for side in ("width", "height")]
    return min(small) <= 64 or "icon" in " ".join(classes(element)) or element.get("role") == "presentation"


HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
LISTS = frozenset({"ul", "ol", "menu", "dir"})
_BLOCKS = (
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset "
    "figcaption figure footer form frameset header hgroup hr html legend li listing main nav noframes "
    "p plaintext pre search section summary table tbody td tfoot th thead tr xmp "
)
BLOCKS = frozenset(_BLOCKS.split()) | LISTS | HEADINGS.keys()
_SILENT = (
    "area audio base canvas col colgroup datalist embed head link map meta noscript object optgroup "
    "option param rp script select style svg template title video "
)
SILENT = frozenset(_SILENT.split())
"""Elements whose text is not shown. Some hold an address or a formula, which is looked for first.

Without wbr, source and track: libxml2 does not know that they are empty, and puts the following text into
them.
"""


def classes(element: HtmlElement) -> list[str]:
    """Return the element's classes, in lower case."""
    return str(element.get("class", "")).lower().split()


def text_of(element: HtmlElement, most: int | None = None) -> str:
    """Return the text in the element, unchanged, without comments, scripts and styles. Not recursive.

    Text that begins after the first ``most`` characters may be missing.
    """
    if most is None:
        return "".join(_text_nodes(element))
    parts: list[str] = []
    for text in _text_nodes(element):
        parts.append(text)
        most -= len(text)
        if most < 0:
            break
    return "".join(parts)


def short_text(element: HtmlElement, most: int) -> str | None:
    """Return the text in the element without white space around it; None if it has more than ``most``
    characters, or 1,000 with this white space.
    """
    text = text_of(element, _MOST_WHITE)
    if len(text) > _MOST_WHITE:
        return None
    text = text.strip()
    return text if len(text) <= most else None


def paragraphs_of(element: HtmlElement) -> Iterator[str]:
    """Yield all text in the element in one line for each block. Not recursive."""
    parts: list[str] = []
    walk = iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        if node.tag in BLOCKS or node.tag == "br":
            if line := " ".join("".join(parts).split()):
                yield line
            parts.clear()
        if event == "start":
            if node.tag in SILENT:
                walk.skip_subtree()
            else:
                parts.append(node.text or "")
        elif node is not element:
            parts.append(node.tail or "")
    if line := " ".join("".join(parts).split()):
        yield line


def _text_nodes(element: HtmlElement) -> Iterator[str]:
    walk = iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        if event == "start":
            if node.tag in SILENT:
                walk.skip_subtree()
            else:
                yield node.text or ""
        elif node is not element:
            yield node.tail or ""


_LANGUAGE = re.compile(
    r"^(?:language|lang|highlight-source|highlight-text|highlight|hl|brush|code|src|syntax|prism|enlighter)"
    r"[-:_](?P<name>[\w+#.-]+?)(?:-basic)?$"
)
_MARKERS = {"sourcecode", "hljs", "prettyprint", "highlight", "code", "src", "brush:", "shiki", "chroma"}
_NAMES = (
    "bash c clojure console cpp c++ cs csharp c# css dart diff docker dockerfile elixir erlang fish "
    "fsharp go golang graphql groovy haskell hcl html http ini java javascript js json json5 jsonc "
    "jsx julia kotlin latex less lisp lua make makefile markdown matlab md mdx mermaid nginx nix objc "
    "objectivec ocaml perl php plaintext powershell proto protobuf ps1 py pycon python python3 r rb "
    "rs ruby rust sass scala scheme scss sh shell shell-session solidity sql svelte swift terraform "
    "tex text toml ts tsx typescript v vb vim vue wasm xml yaml yml zig zsh "
)
_KNOWN = frozenset(_NAMES.split())
_NOTHING = (
    "none text plaintext plain txt default notranslate nohighlight auto block wrapper container "
    "inline snippet toolbar line-numbers light dark theme pre "
)
_NONE = frozenset(_NOTHING.split())
_SAME = {"ipython": "python", "ipython2": "python", "ipython3": "python"}
_BY_EXTENSION = {
    "bash": "bash", "c": "c", "cc": "cpp", "cjs": "javascript", "clj": "clojure", "cpp": "cpp",
    "cs": "csharp", "css": "css", "dart": "dart", "ex": "elixir", "exs": "elixir", "go": "go",
    "graphql": "graphql", "h": "c", "hpp": "cpp", "hs": "haskell", "html": "html", "ini": "ini",
    "java": "java", "jl": "julia", "js": "javascript", "json": "json", "jsx": "jsx", "kt": "kotlin",
    "lua": "lua", "mdx": "mdx", "mjs": "javascript", "php": "php", "pl": "perl", "ps1": "powershell",
    "py": "python", "r": "r", "rb": "ruby", "rs": "rust", "sass": "sass", "scala": "scala", "scss": "scss",
    "sh": "bash", "sql": "sql", "svelte": "svelte", "swift": "swift", "tex": "latex", "tf": "terraform",
    "toml": "toml", "ts": "typescript", "tsx": "tsx", "vue": "vue", "xml": "xml", "yaml": "yaml",
    "yml": "yaml", "zig": "zig",
}  # fmt: skip
_FILE = re.compile(r"[^\s:*?\"<>|]{0,80}\.(?P<extension>[A-Za-z0-9]{1,7})")
_GUTTERS = (
    "lineno linenos linenodiv line-number line-numbers line-numbers-rows linenumber ln lnt gutter "
    "rouge-gutter hljs-ln-numbers hljs-ln-n blob-num react-syntax-highlighter-line-number "
    "token-line-number code-line-number crayon-nums code-block-line-numbers "
)
_GUTTER = frozenset(_GUTTERS.split())
_GUTTERS_BESIDE = _GUTTER | {"line-numbers-wrapper"}
_LABELS = frozenset(
    {"lang", "language", "language-label", "lang-label", "code-lang", "code-language", "toolbar"}
)
_SPOKEN = frozenset({"copy", "copy-btn", "copybtn", "copy-button", "btn-copy", "clipboard-copy", "sr-only"})
_LINES = frozenset({"div", "p", "li", "tr"})
_LINE = frozenset({"line", "code-line", "cl", "view-line", "token-line", "codemirror-line", "ec-line"})
_BLOCK = re.compile(
    r"(?:^|;)\s*display\s*:\s*(?:block|flex|grid|list-item|table|table-row|flow-root)\b", re.IGNORECASE
)
_CODE_CELLS = frozenset({"code", "blob-code", "rouge-code", "hljs-ln-code", "crayon-code", "lntd"})
_ABOVE = 5  # elements around a listing that may name its language
_LONGEST_TITLE = 80  # characters of the name of a file
_LONGEST_LABEL = 200  # characters of the title of an admonition
_MOST_NUMBERS = 20_000  # characters of line numbers


def fenced(element: HtmlElement, shared: Collection[HtmlElement]) -> str:
    """Return the code as a fenced block; "" if it is empty.

    ``shared`` are the elements around several listings (see around_several): they name the language of none.
    """
    code = source(element)
    if not code.strip():
        return ""
    fence = "`" * max(3, spans.longest(code) + 1)
    return f"{fence}{language(element, shared)}\n{code}\n{fence}"


def source(element: HtmlElement) -> str:
    """Return the lines of a listing, without a gutter of numbers, buttons and white space around it."""
    code = "".join(_text_parts(element)).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    lines = [line.rstrip() for line in code.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _text_parts(element: HtmlElement) -> Iterator[str]:
    """Texts in order, with the newlines that rows, items and boxes make. Not recursive."""
    # If the text has no newline, each line is an element.
    boxed = "\n" not in text_of(element).strip()
    fresh = True  # at the beginning of a line
    begun: HtmlElement | None = None  # a line without text so far
    walk = iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        text = ""
        own = isinstance(node.tag, str) and node is not element
        if event == "start":
            if own and _left_out(node):
                walk.skip_subtree()
            elif own and node.tag == "br":
                text = "" if boxed and _ends_line(node) else "\n"
            else:
                text = ("\n" if own and not fresh and _is_line(node, boxed) else "") + (node.text or "")
                begun = node if own and boxed and not node.text and _is_line(node, boxed) else begun
        elif node is not element:
            ends = own and (not fresh or node is begun) and _is_line(node, boxed) and not _left_out(node)
            text = ("\n" if ends else "") + (node.tail or "")
        if text and node is not begun:
            begun = None
        if text:
            fresh = text.endswith("\n")
            yield text


def _left_out(node: HtmlElement) -> bool:
    if node.tag in SILENT or node.tag == "button":
        return True
    names = classes(node)
    if _SPOKEN.intersection(names):
        return True
    is_gutter = _GUTTER.intersection(names) or (node.tag == "td" and _is_before_code(node))
    return bool(is_gutter) and not text_of(node).strip("0123456789 \t\r\n\xa0")


def _is_before_code(cell: HtmlElement) -> bool:
    """Return whether the next cell of a row is a line of code, or a listing."""
    after = cell.getnext()
    return (
        after is not None
        and after.tag == "td"
        and after.getnext() is None
        and (
            len(after) == 1
            and after[0].tag in ("pre", "code")
            and not (after.text or after[0].tail or "").strip()
        )
    )


def _ends_line(node: HtmlElement) -> bool:
    """Return whether a break comes right after an element that is a line already."""
    before = node.getprevious()
    return before is not None and not (before.tail or "").strip() and _is_line(before, True)


def _is_line(node: HtmlElement, boxed: bool) -> bool:
    if node.tag in _LINES:
        return True
    if not boxed:
        return False
    above = node.getparent() if node.tag == "code" else None
    lines = above is not None and above.tag == "pre" and len(above) > 1
    return lines or bool(_LINE.intersection(classes(node))) or bool(_BLOCK.search(node.get("style") or ""))


def around_several(elements: Sequence[HtmlElement]) -> set[HtmlElement]:
    """Return the elements around more than one listing. Each element is visited twice at most.

    Line numbers are no listing, nor is one within another.
    """
    once: set[HtmlElement] = set()
    several: set[HtmlElement] = set()
    for element in elements:
        last: HtmlElement | None = None
        for listing in element.iter("pre"):
            if (last is not None and last in listing.iterancestors("pre")) or _is_numbers(listing):
                continue
            last = listing
            for above in (listing, *listing.iterancestors()):
                if above in several:
                    break
                (several if above in once else once).add(above)
    return several


def language(element: HtmlElement, shared: Collection[HtmlElement]) -> str:
    """Return the language of a code block, by the usual classes and attributes; "" if it is unknown."""
    inside = [child for child in element.iter("code") if child is not element][:1]
    around = [element, *inside]
    above = element.getparent()
    for _ in range(_ABOVE):
        if above is None or above in shared or above.tag in ("body", "article", "main"):
            break
        around.append(above)
        above = above.getparent()
    for node in around:
        if name := _language_of(node):
            return name
    for node in around:
        before = node.getprevious()
        title = short_text(before, _LONGEST_TITLE) if before is not None and before.tag != "pre" else None
        if title and (file := _FILE.fullmatch(title)):
            return _BY_EXTENSION.get(file["extension"].lower(), "")
    return ""


def beside_listing(element: HtmlElement) -> bool:
    """Return whether an element beside a listing says only its language, or numbers its lines."""
    names = classes(element)
    is_gutter = bool(_GUTTERS_BESIDE.intersection(names))
    if not is_gutter and _LABELS.isdisjoint(names):
        return False
    beside = (element.getprevious(), element.getnext())
    if not any(each is not None and (each.tag == "pre" or each.find("pre") is not None) for each in beside):
        return False
    if is_gutter:
        return _is_numbers(element)
    words = " ".join(islice(paragraphs_of(element), 4)).lower().split() if len(element) < 9 else ()
    return 0 < len(words) < 4 and all(word in _KNOWN or word in ("copy", "code") for word in words)


def _is_numbers(element: HtmlElement) -> bool:
    text = text_of(element, _MOST_NUMBERS)
    return not text.strip("0123456789 \t\r\n\xa0") and bool(text.strip())


def _language_of(node: HtmlElement) -> str:
    for attribute in (
        "data-lang",
        "data-language",
        "lang" if node.tag in ("pre", "code") else "data-code-lang",
    ):
        if language := _clean_language(node.get(attribute, ""), sure=attribute != "lang"):
            return language
    names = classes(node)
    for name in names:
        if (said := _LANGUAGE.match(name)) and (
            language := _clean_language(said["name"], sure=name.startswith("lang"))
        ):
            return language
    if _MARKERS.intersection(names) or node.tag in ("pre", "code"):
        for name in names:
            if name.strip(";") in _KNOWN and (language := _clean_language(name.strip(";"), sure=True)):
                return language
    return ""


def _clean_language(name: str, *, sure: bool) -> str:
    name = name.strip().lower().partition("{")[0].partition(":")[0]
    if name in _NONE or not re.fullmatch(r"[\w+#.-]{1,24}", name) or name.isdigit():
        return ""
    name = _SAME.get(name, name)
    return name if sure or name in _KNOWN else ""


_KINDS_OF_ADMONITIONS = (
    "note tip hint info information important warning caution danger error attention seealso example question"
    " success failure bug abstract todo"
)
_ADMONITION = frozenset(_KINDS_OF_ADMONITIONS.split())
_NAMED_ALONE = frozenset(["note", "tip", "hint", "important", "warning", "caution", "danger", "attention"])
"""Kinds whose classes name an admonition alone, if it has a title."""
_NAMES_OF_ADMONITIONS = (
    "admonition admonitionblock theme-admonition custom-block markdown-alert callout notecard starlight-aside"
    " confluence-information-macro"
)
_OF_ADMONITIONS = frozenset(_NAMES_OF_ADMONITIONS.split())
_TITLE_OF_ADMONITION = re.compile(r"title|heading|header")
_MOST_OF_ADMONITION = 12  # elements at its beginning that may be its title


class Admonition(NamedTuple):
    """The kind of an admonition, and the element that is its title, if it has one."""

    kind: str
    title: HtmlElement | None


def admonition(element: HtmlElement) -> Admonition | None:
    """Return what an element is as an admonition; None if it is not one.

    Its classes name its kind, and either say that it is one, or it begins with a title.
    """
    if element.tag not in ("div", "aside", "section", "details", "blockquote"):
        return None
    names = classes(element)
    if "msg" in names and element.tag == "aside":
        return Admonition("warning" if "alert" in names else "note", None)
    sure = not _OF_ADMONITIONS.isdisjoint(names)
    if not sure and _NAMED_ALONE.isdisjoint(names) and "alert" not in names:
        return None
    kind = next((kind for name in names if (kind := _kind_in(name))), None)
    if kind is None:
        return None
    title = _title_of_admonition(element)
    return Admonition(kind, title) if sure or title is not None else None


def _kind_in(name: str) -> str | None:
    """Return the kind in a class such as ``warning``, ``callout-warning`` or ``alert--warning``."""
    kind = name.rpartition("-")[2]
    if kind not in _ADMONITION:
        return None
    return {"information": "info", "seealso": "see also"}.get(kind, kind)


def _title_of_admonition(element: HtmlElement) -> HtmlElement | None:
    for inner in islice(element.iterdescendants(), _MOST_OF_ADMONITION):
        if not isinstance(inner.tag, str) or inner.tag in SILENT:
            continue
        if inner.tag == "summary" and element.tag == "details":
            return inner
        named = any(_TITLE_OF_ADMONITION.search(name) for name in classes(inner))
        text = short_text(inner, _LONGEST_LABEL) if inner.tag in BLOCKS and inner.tag != "td" else None
        if text and (named or (inner.tag == "p" and text.lower() in _ADMONITION)):
            return inner
        if (inner.text or "").strip():
            return None
    return None


def in_table(table: HtmlElement) -> HtmlElement | None:
    """Return the part of a table that is code with line numbers beside it: a cell or the whole table; else
    None.
    """
    cells = [cell for cell in table.iter("td") if _CODE_CELLS.intersection(classes(cell))]
    if not cells and _is_numbered(table):
        return table
    if len(cells) == 1 and all(
        not text_of(other).strip("0123456789 \t\r\n\xa0")
        for other in cells[0].itersiblings("td", preceding=True)
    ):
        return cells[0]
    if len(cells) > 1:
        numbered = next(table.iter("pre"), None)
        if numbered is not None and all(next(cell.iter("pre"), None) is not None for cell in cells):
            # The gutter and the code have one class: take the code.
            words = [cell for cell in cells if text_of(cell).strip("0123456789 \t\r\n")]
            return words[0] if len(words) == 1 else None
        return table
    return None


def _is_numbered(table: HtmlElement) -> bool:
    """Return whether each row of a table is a number, or several, and code beside it."""
    rows = list(table.iter("tr"))
    return bool(rows) and all(
        len(row) == 2 and _is_before_code(row[0]) and not text_of(row[0]).strip("0123456789 \t\r\n\xa0")
        for row in rows
    )
