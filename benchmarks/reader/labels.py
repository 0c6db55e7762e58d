"""Which blocks of a page are content, told from the text that a person marked; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.reader.scoring import words

from tabane.reader.extraction.blocks import ContentBlock

_LONG = 5
"""Words from which on a block is known by what it says alone; shorter ones by where they stand, too."""
_SHINGLE = 4
_NEAR = 400


@dataclass
class _Gold:
    words: list[str]
    used: bytearray = field(init=False)
    places: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.used = bytearray(len(self.words))
        self.places = defaultdict(list)
        for place, word in enumerate(self.words):
            self.places[word].append(place)

    def find(self, said: Sequence[str], low: int, high: int) -> list[int]:
        """Where these words stand one after the other and are not taken by another block."""
        return [
            place
            for place in self.places.get(said[0], ())
            if low <= place <= high - len(said)
            and self.words[place : place + len(said)] == said
            and not any(self.used[place : place + len(said)])
        ]

    def take(self, place: int, count: int) -> None:
        self.used[place : place + count] = b"\1" * count


def labels(texts: Sequence[str], wanted: str) -> list[bool]:
    """For each block's text, whether it is part of what was marked.

    Long blocks are looked up as they are, longest first, and each word of the marked text is given away
    once; those that are there in pieces count where most of their shingles are. Short ones (a date, "Reply",
    a name) must stand between the places of the long ones around them.
    """
    gold = _Gold(words(wanted, characters=True))
    said = [words(text, characters=True) for text in texts]
    order = sorted((n for n in range(len(said)) if len(said[n]) >= _LONG), key=lambda n: -len(said[n]))
    places: list[int | None] = [None] * len(said)
    found = [False] * len(said)
    for number in order:
        if places_of := gold.find(said[number], 0, len(gold.words)):
            place = _nearest(places_of, places, number)
            gold.take(place, len(said[number]))
            places[number], found[number] = place, True
    _pieces(gold, said, order, found)
    _short(gold, said, places, found)
    return found


def _nearest(found: Sequence[int], places: Sequence[int | None], number: int) -> int:
    before = [place for place in places[max(0, number - 8) : number] if place is not None]
    return min(found, key=lambda place: abs(place - before[-1])) if before else found[0]


def _pieces(gold: _Gold, said: Sequence[list[str]], order: Sequence[int], found: list[bool]) -> None:
    whole = {tuple(gold.words[at : at + _SHINGLE]) for at in range(len(gold.words) - _SHINGLE + 1)}
    rest = Counter(word for word, used in zip(gold.words, gold.used, strict=True) if not used)
    for number in order:
        if found[number]:
            continue
        block = said[number]
        shingles = [tuple(block[at : at + _SHINGLE]) for at in range(len(block) - _SHINGLE + 1)]
        in_pieces = sum(shingle in whole for shingle in shingles) / len(shingles)
        left = sum((Counter(block) & rest).values()) / len(block)
        if (in_pieces > 0.6 and left > 0.5) or (left > 0.9 and len(block) > 20):
            found[number] = True
            rest -= Counter(block)


def _short(gold: _Gold, said: Sequence[list[str]], places: list[int | None], found: list[bool]) -> None:
    after: list[int | None] = [None] * len(said)
    for number in range(len(said) - 2, -1, -1):
        after[number] = places[number + 1] if places[number + 1] is not None else after[number + 1]
    before: int | None = None
    for number, block in enumerate(said):
        if places[number] is not None:
            before = places[number]
        elif (
            block
            and len(block) < _LONG
            and (place := _between(gold, block, before, after[number])) is not None
        ):
            gold.take(place, len(block))
            places[number], found[number], before = place, True, place


def _between(gold: _Gold, block: list[str], before: int | None, after: int | None) -> int | None:
    high = len(gold.words) if after is None else after + 2
    if before is None:
        close = [at for at in gold.find(block, 0, high) if after is not None and after - at < 60]
        return close[-1] if close else None
    low, high = (before, high) if before < high else (max(0, high - 200), before + 200)
    close = gold.find(block, low, high)
    return close[0] if close and close[0] - low < _NEAR else None


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_INSIDE = ".//li|.//table|.//pre|.//div|.//h2|.//h3"


def structured(blocks: Sequence[ContentBlock], structure: dict[str, list[Any]]) -> Iterator[bool | None]:
    """For each block, whether it is content as its page's structure tells; None where that tells nothing.

    Only items of three words and more without other parts in them, headings, listings of two lines and more,
    and paragraphs with links are told of.
    """
    items, headings = set(structure.get("li", ())), set(structure.get("head", ()))
    listings = {_plain(" ".join(lines)) for lines in structure.get("code", ())}
    links = {(text, address) for text, address in structure.get("link", ())}
    for block in blocks:
        element = block.box.element
        said = _plain(block.text)
        item = next((at for at in (element, *element.iterancestors("li")) if at.tag == "li"), None)
        whole = _plain("".join(item.itertext())) if item is not None and not item.xpath(_INSIDE) else ""
        if whole.count(" ") >= 2 and len(whole) < 400:
            yield whole in items
        elif element.tag in _HEADINGS and 0 < len(said) < 150:
            yield said in headings
        elif element.tag == "pre" and len("".join(element.itertext()).strip().splitlines()) > 1:
            yield said in listings
        else:
            linked = any(
                (_plain("".join(at.itertext())), at.get("href")) in links for at in element.iter("a")
            )
            yield True if element.tag == "p" and linked else None


def _plain(text: str) -> str:
    return " ".join(words(text))
