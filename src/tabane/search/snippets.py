"""Snippets and first sentences of a text; pure.

A snippet is the passage that shows best why the text was found, with the words of the query marked. Its
offsets are characters of the original text. Width, case and accents are folded only to find words.

Ends of sentences are detected in English and Japanese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from msgspec import Struct

from tabane.search.analysis import (
    GAP,
    is_cjk,
    left_out,
    normalize,
    placed_runs,
    plain,
    positioned,
    run_tokens,
    substring_spelling,
    with_long_vowels,
)
from tabane.text.lazy_patterns import lazy_pattern

LONGEST_TEXT = 200_000  # characters that are searched
MOST_MARKS = 64
_REACH = 12  # characters that a cut is moved at most, to the end of a word or sentence

_SENTENCE_ENDS = "。！？\n"
_HIRAGANA = re.compile(r"(?<!\w)[ぁ-ゖー]{2,}(?!\w)")
_LAST_WORD = re.compile(r"[a-z0-9]{2,}$")
_BREAKS = " 　\t、，,.;:；：）」』]"


class Snippet(Struct, frozen=True):
    """A passage. ``text`` is ``original[start:end]``; ``marks`` are the spans of found words in ``text``."""

    text: str
    start: int
    end: int
    marks: tuple[tuple[int, int], ...] = ()


def snippet(text: str, words: Iterable[str], length: int = 160, *, unfinished: bool = False) -> Snippet:
    """Return the passage of at most ``length`` characters with most of the words, rare ones first.

    ``words`` are texts as a person typed them, not tokens. If none is found, the passage is the beginning of
    the text. ``unfinished``: the last word is the beginning of a word.
    """
    looked = text[:LONGEST_TEXT]
    spans = _marked_spans(looked, SoughtWords.of(words, unfinished))
    start = _best_start(spans, length) if spans else 0
    start, end = _move_to_breaks(looked, start, min(len(looked), start + length))
    inside = [(at - start, to - start) for at, to, _ in spans if at >= start and to <= end]
    return Snippet(text[start:end], start, end, _merge_spans(inside))


def marks(
    text: str, words: Sequence[str], parts: Iterable[str] = (), *, unfinished: bool = False
) -> tuple[tuple[int, int], ...]:
    """Return the spans of the words in a whole text, at most :data:`MOST_MARKS`.

    ``words`` and ``unfinished`` as in :func:`snippet`. ``parts`` are marked inside of words too.
    """
    spans = _marked_spans(text[:LONGEST_TEXT], SoughtWords.of(words, unfinished, parts))
    return _merge_spans((start, end) for start, end, _ in spans)


class SoughtWords(Struct, frozen=True):
    """The things to mark: tokens by number, the beginning of tokens, and characters wherever they are."""

    tokens: Mapping[str, int]
    beginning: str = ""
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str], unfinished: bool = False, parts: Iterable[str] = ()) -> SoughtWords:
        """Return what is marked for words as a person typed them.

        Hiragana and a single character of CJK have no token in the middle of a text, so they are parts.
        """
        typed = list(words)
        tokens = dict.fromkeys(token for word in typed for token in positioned(word) if token != GAP)
        inside = [*parts, *(token for token in tokens if len(token) == 1 and is_cjk(token))]
        inside += [run for word in typed for run in _HIRAGANA.findall(normalize(word))]
        last = _LAST_WORD.search(normalize(typed[0])) if unfinished and typed else None
        return cls(
            {token: number for number, token in enumerate(tokens)},
            last.group() if last else "",
            tuple(part for part in dict.fromkeys(map(substring_spelling, inside)) if part)[:MOST_MARKS],
        )

    def number(self, token: str) -> int | None:
        """Return the number of a token; None if it is not marked."""
        number = self.tokens.get(token)
        if number is None and self.beginning and token.startswith(self.beginning):
            return -1
        return number


def _marked_spans(text: str, sought: SoughtWords) -> list[tuple[int, int, int]]:
    """Return what is marked in the original text as (start, end, number), in order."""
    spans: list[tuple[int, int, int]] = []
    folded, places = _fold_with_places(text)
    numbers, beginning = sought.tokens, sought.beginning
    for at, run in placed_runs(folded):
        if run.isascii():  # most words are no more than looked up
            for token in run_tokens(run):
                number = numbers.get(token)
                if number is None and beginning and token.startswith(beginning):
                    number = -1
                if number is not None:
                    spans.append((places[at], places[at + len(run)], number))
            continue
        if is_cjk(run) and not any(token in run for token in numbers):
            continue
        for offset, size, token in _run_tokens(run):
            number = sought.number(token)
            if number is not None:
                first, last = at + offset, at + offset + size - 1
                spans.append((places[first], places[last + 1], number))
    lowered = folded.lower()
    if sought.parts and len(lowered) == len(folded):
        lowered = lowered.replace("ー", "-")
        for number, part in enumerate(sought.parts, len(sought.tokens)):
            spans += [
                (places[each.start()], places[each.end()], number)
                for each in islice(re.finditer(re.escape(part), lowered), MOST_MARKS)
            ]
        spans.sort()
    return spans


def _run_tokens(run: str) -> Iterable[tuple[int, int, str]]:
    """Yield the tokens of a run as (offset, size, token): pairs one by one, words and names as a whole."""
    tokens = run_tokens(run)
    if len(tokens) == max(1, len(run) - 1) and not run.isascii():
        return [(place, min(2, len(run)), token) for place, token in enumerate(tokens)]
    return [(0, len(run), token) for token in tokens]


def _fold_with_places(text: str) -> tuple[str, Sequence[int]]:
    """Return the text in the spelling of tokens, and the original position of each of its characters."""
    if text.isascii():
        return text, range(len(text) + 1)
    folded, places = text, list(range(len(text) + 1))
    if plain(text) != text:
        pieces, places = [], []
        # A character and its combining marks are normalized separately from the others.
        starts = [0, *(at for at in range(1, len(text)) if not _is_combining(text[at])), len(text)]
        for start, end in pairwise(starts):
            pieces.append(plain(text[start:end]))
            places += [start] * len(pieces[-1])
        folded = "".join(pieces)
        places.append(len(text))
    folded = with_long_vowels(folded)
    dropped = left_out(folded)
    if not dropped:
        return folded, places
    kept = [at for at in range(len(folded)) if at not in dropped]
    return "".join(folded[at] for at in kept), [*(places[at] for at in kept), len(text)]


def _is_combining(character: str) -> bool:
    return character > "\u02ff" and (
        unicodedata.combining(character) != 0 or character in "ﾞﾟ" or "\u1161" <= character <= "\u11ff"
    )


def _best_start(spans: Sequence[tuple[int, int, int]], length: int) -> int:
    """Return the start of the best passage. Each token counts once, rare ones more; the first of equals."""
    counts: dict[int, int] = {}
    for _, _, number in spans:
        counts[number] = counts.get(number, 0) + 1
    held: dict[int, int] = {}
    best, best_at, worth, last = 0.0, 0, 0.0, 0
    for first, (at, _, _) in enumerate(spans):
        while last < len(spans) and spans[last][1] - at <= length:
            number = spans[last][2]
            held[number] = held.get(number, 0) + 1
            worth += 1 / counts[number] ** 0.5 if held[number] == 1 else 0.0
            last += 1
        if worth > best + 1e-9:
            width = (spans[last - 1][1] if last > first else at) - at
            best, best_at = worth, max(0, at - (length - width) // 3)
        if last > first:
            number = spans[first][2]
            held[number] -= 1
            worth -= 1 / counts[number] ** 0.5 if held[number] == 0 else 0.0
        else:
            last = first + 1
    return best_at


def _move_to_breaks(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the cut, moved by a few characters to the end of a word or sentence. It never gets longer."""
    if start > 0:
        start = next(
            (at + 1 for at in range(start, min(start + _REACH, end)) if text[at] in _SENTENCE_ENDS), start
        )
        ahead = range(start, min(start + _REACH, end))
        if text[start - 1 : start].isalnum() and text[start].isascii():
            start = next((at + 1 for at in ahead if text[at] in _BREAKS), start)
    if end < len(text) and text[end].isascii() and text[end].isalnum():
        end = next((at for at in range(end, max(end - _REACH, start), -1) if text[at - 1] in _BREAKS), end)
    return start, end


def _merge_spans(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the spans. Those that touch or overlap are joined."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged[:MOST_MARKS])


# A Japanese full stop ends a sentence, except inside brackets. A Latin one does only before a space, so that
# versions, domains and file names are not cut.
_END = lazy_pattern(r"[。！？](?![」』）】])|[.!?][\"'”’)\]]*(?=\s|$)")
_ABBREVIATION = lazy_pattern(
    r"(?:^|[\s(\[\"'])(?:e\.g|i\.e|eg|ie|vs|cf|approx|incl|excl|resp|esp|mr|mrs|ms|dr|prof|st|no|nos|fig|figs|vol|"
    r"[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)
# The line in a docstring after which no description follows, but a list.
_SECTION = lazy_pattern(
    r"(?:[-*•・#@>|`]|\d+[.)]\s|<|(?:args?|arguments?|param(?:eter)?s?|inputs?|returns?|outputs?|raises|usage|"
    r"examples?|notes?|warnings?|引数|パラメータ|パラメーター|戻り値|使用例|例|注意|備考)\s*[:：])",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[A-Za-z_][\w-]*>")
_LEAD_IN = re.compile(r"^[\s#*_`>-]+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_MOST = 4000


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, on one line; the whole text if the sentence has no end.

    A blank line, a list or a section such as "Args:" ends it too. Only the first 4,000 characters are read.
    """
    gist = _first_paragraph(text[:_MOST])
    return gist[: next(_sentence_ends(gist), len(gist))]


def first_sentences(text: str, most: int) -> str:
    """Return the first sentence of a description and the next ones that fit, on one line.

    The result has at most ``most`` characters, except that the first sentence is not cut. Only the first
    4,000 characters are read.
    """
    line = one_line(text[:_MOST])
    if len(line) <= most:
        return line
    ends = list(_sentence_ends(line))
    return line[: max((end for end in ends if end <= most), default=ends[0] if ends else len(line))]


def one_line(text: str) -> str:
    """Return the text with each run of white space replaced by one space."""
    return " ".join(text.split())


def _first_paragraph(text: str) -> str:
    """Return the first paragraph, up to a list or section, without Markdown marks and tags."""
    heading = ""
    for paragraph in _BLANK_LINE.split(_TAG.sub(" ", text)):
        lines: list[str] = []
        for line in paragraph.splitlines():
            if lines and _SECTION.match(line.strip()):
                break
            if bare := _LEAD_IN.sub("", line).strip():
                lines.append(bare)
        if lines and paragraph.lstrip().startswith("#") and len(lines) == 1:
            heading = heading or lines[0]
        elif lines:
            gist = lines[0]
            for line in lines[1:]:  # with a space between Latin lines, and without one inside Japanese
                gist += ("" if gist[-1] > "\u2fff" and line[0] > "\u2fff" else " ") + line
            return one_line(gist)
    return one_line(heading)


def _sentence_ends(text: str) -> Iterator[int]:
    """Yield where sentences end. The full stop of an abbreviation ends none."""
    for match in _END.finditer(text):
        at, end = match.span()
        stop = text[at] == "." and end < len(text)
        if not (stop and _ABBREVIATION.search(text[max(0, at - 12) : at + 1])):
            yield end
