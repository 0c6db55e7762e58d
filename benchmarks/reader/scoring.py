"""What is right in what was read: words, and structure; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_WORD = re.compile(r"\w+")
_CJK = re.compile(r"[぀-ヿ㐀-鿿ｦ-ﾟ가-힯]|[^\W぀-ヿ㐀-鿿ｦ-ﾟ가-힯]+")
_IMAGE = re.compile(r'!\[([^\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+"[^"]*")?\)')
_LINK = re.compile(r'\[((?:[^\[\]]|\[[^\]]*\])*)\]\((<[^>]*>|(?:[^()\s]|\([^()]*\))*)(?:\s+"[^"]*")?\)')
_FENCE = re.compile(r"^(\s*)(```+|~~~+)[^\n]*\n(.*?)^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_EMPHASIS = re.compile(
    r"(?<!\w)(\*\*\*|\*\*|\*|___|__|_|~~|`)(?=\S)|(?<=\S)(\*\*\*|\*\*|\*|___|__|_|~~|`)(?!\w)"
)
_LINE_MARKS = re.compile(r"^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+)", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_MOST_OF = 0.8


class Score(NamedTuple):
    """Precision, recall and their harmonic mean, each 0..1."""

    precision: float
    recall: float
    f1: float


def words(text: str, *, characters: bool = False) -> list[str]:
    """Words in lower case; ``characters``: those of Chinese, Japanese and Korean one by one."""
    return (_CJK if characters else _WORD).findall(text.lower())


def scored(found: str, wanted: str, *, characters: bool = False) -> Score:
    """Words found against words wanted, as often as they occur: the measure of WCXB."""
    one, other = (Counter(words(text, characters=characters)) for text in (found, wanted))
    if not one or not other:
        return Score(*[float(not one and not other)] * 3)
    both = sum((one & other).values())
    precision, recall = both / one.total(), both / other.total()
    return Score(precision, recall, 2 * precision * recall / (precision + recall) if both else 0.0)


def plain(markdown: str) -> str:
    """Markdown without its marks: images and addresses are not text."""
    text = _LINK.sub(r"\1", _LINK.sub(r"\1", _IMAGE.sub(" ", markdown)))
    text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"</?[a-zA-Z][^>]*>", " ", _ESCAPE.sub(r"\1", text))
    return _LINE_MARKS.sub("", _EMPHASIS.sub("", text))


def kept(markdown: str, structure: dict[str, list[Any]]) -> dict[str, float]:
    """By kind, the share of what stands in the content as structure that the Markdown shows as that."""
    blocks = [match.group(3) for match in _FENCE.finditer(markdown)]
    lines = _FENCE.sub("\n", markdown).splitlines()
    measures: dict[str, Callable[[Sequence[Any]], int]] = {
        "code": lambda wanted: _listings(blocks, wanted),
        "table": lambda wanted: _tables(lines, wanted),
        "head": lambda wanted: _among(wanted, [line for line in lines if re.match(r"\s{0,3}#{1,6}\s", line)]),
        "li": lambda wanted: _among(wanted, [_ITEM.sub("", line) for line in lines if _ITEM.match(line)]),
        "link": lambda wanted: _links(markdown, wanted),
    }
    return {kind: measures[kind](wanted) / len(wanted) for kind, wanted in structure.items() if wanted}


def _normal(text: str) -> str:
    return " ".join(_WORD.findall(_LINK.sub(r"\1", _IMAGE.sub(" ", text)).lower()))


def _among(wanted: Sequence[str], lines: Sequence[str]) -> int:
    found = {_normal(line) for line in lines}
    return sum(text in found for text in wanted)


def _listings(blocks: Sequence[str], wanted: Sequence[Sequence[str]]) -> int:
    found = [{" ".join(line.split()) for line in block.splitlines()} for block in blocks]
    return sum(
        any(
            sum(" ".join(line.split()) in block for line in lines) >= _MOST_OF * len(lines) for block in found
        )
        for lines in wanted
    )


def _tables(lines: Sequence[str], wanted: Sequence[Sequence[Sequence[str]]]) -> int:
    rows = [_normal(line) for line in lines if "|" in line]
    return sum(
        sum(any(all(cell in row for cell in cells) for row in rows) for cells in table)
        >= _MOST_OF * len(table)
        for table in wanted
    )


def _links(markdown: str, wanted: Sequence[Sequence[str]]) -> int:
    found = {match.group(2).strip("<>").rstrip("/") for match in _LINK.finditer(markdown)}
    return sum(address.rstrip("/") in found for _, address in wanted)
