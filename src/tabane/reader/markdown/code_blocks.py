"""Code blocks: their lines as written, and their language if the page names it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from lxml.etree import iterwalk
from lxml.html import HtmlElement

from tabane.reader.markdown import spans
from tabane.reader.markdown.elements import SILENT, classes, text_of

_LANGUAGE = re.compile(
    r"^(?:language|lang|highlight-source|highlight|brush|code|src|syntax|prism|enlighter)[-:_](?P<name>[\w+#.-]+)$"
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
_GUTTERS = (
    "lineno linenos linenodiv line-number line-numbers line-numbers-rows linenumber ln lnt gutter "
    "rouge-gutter hljs-ln-numbers hljs-ln-n blob-num react-syntax-highlighter-line-number "
    "token-line-number code-line-number crayon-nums code-block-line-numbers "
)
_GUTTER = frozenset(_GUTTERS.split())
_SPOKEN = frozenset({"copy", "copy-btn", "copybtn", "copy-button", "btn-copy", "clipboard-copy", "sr-only"})
_LINES = frozenset({"div", "p", "li", "tr"})
_LINE = frozenset({"line", "code-line", "cl", "view-line", "token-line", "codemirror-line", "ec-line"})
_BLOCK = re.compile(
    r"(?:^|;)\s*display\s*:\s*(?:block|flex|grid|list-item|table|table-row|flow-root)\b", re.IGNORECASE
)
_CODE_CELLS = frozenset({"code", "blob-code", "rouge-code", "hljs-ln-code", "crayon-code", "lntd"})
_ABOVE = 4  # elements around a listing that may name its language


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
                text = "\n"
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


def _is_line(node: HtmlElement, boxed: bool) -> bool:
    if node.tag in _LINES:
        return True
    if not boxed:
        return False
    above = node.getparent() if node.tag == "code" else None
    lines = above is not None and above.tag == "pre" and len(above) > 1
    return lines or bool(_LINE.intersection(classes(node))) or bool(_BLOCK.search(node.get("style") or ""))


def around_several(elements: Sequence[HtmlElement]) -> set[HtmlElement]:
    """Return the elements around more than one listing. Each element is visited twice at most."""
    once: set[HtmlElement] = set()
    several: set[HtmlElement] = set()
    for element in elements:
        for listing in element.iter("pre"):
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
    return ""


def _language_of(node: HtmlElement) -> str:
    for attribute in (
        "data-lang",
        "data-language",
        "lang" if node.tag in ("pre", "code") else "data-code-lang",
    ):
        if found := _clean_language(node.get(attribute, ""), sure=attribute != "lang"):
            return found
    names = classes(node)
    for name in names:
        if (said := _LANGUAGE.match(name)) and (
            found := _clean_language(said["name"], sure=name.startswith("lang"))
        ):
            return found
    if _MARKERS.intersection(names) or node.tag in ("pre", "code"):
        for name in names:
            if name.strip(";") in _KNOWN and (found := _clean_language(name.strip(";"), sure=True)):
                return found
    return ""


def _clean_language(name: str, *, sure: bool) -> str:
    name = name.strip().lower().partition("{")[0].partition(":")[0]
    if name in _NONE or not re.fullmatch(r"[\w+#.-]{1,24}", name) or name.isdigit():
        return ""
    return name if sure or name in _KNOWN else ""


def in_table(table: HtmlElement) -> HtmlElement | None:
    """Return the part of a table that is code with line numbers beside it: a cell or the whole table; else
    None.
    """
    cells = [cell for cell in table.iter("td") if _CODE_CELLS.intersection(classes(cell))]
    if not cells and _is_numbered(table):
        return table
    if len(cells) == 1 and _beside_numbers(cells[0]):
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


def _beside_numbers(cell: HtmlElement) -> bool:
    return all(
        not text_of(other).strip("0123456789 \t\r\n\xa0") for other in cell.itersiblings("td", preceding=True)
    )
