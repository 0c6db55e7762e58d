"""The spaces of a collection that hold the tokens of its texts, and the analysis of texts for them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tabane.engine.query_plans import PAIRS, TOKENS, UNITS, WORDS
from tabane.search.analysis import GAP, positioned, units
from tabane.search.japanese import Japanese
from tabane.search.records import Shape
from tabane.search.substrings import substring_tokens

Analysis = Mapping[str, list[str]]
"""Space → its tokens in order, with gaps. Without pairs, which the memory segment rarely needs."""

JoinedAnalysis = Mapping[str, str]
"""Space → its tokens in order, with gaps and joined by spaces. With pairs: the whole text of an index."""

VERSION = 2  # of the analysis: an index with another version is rebuilt


class RecordAnalyzer:
    """Analyzes texts for the spaces of a shape. Pure; any thread may use it."""

    def __init__(self, shape: Shape, japanese: Japanese | None) -> None:
        self.shape = shape
        self._texts = tuple(text.name for text in shape.texts)
        self._cutters: dict[str, Callable[[str], list[str]]] = {TOKENS: positioned, UNITS: units}
        if japanese is not None:
            self._cutters[WORDS] = japanese.words
        self.fingerprint = f"{VERSION} {japanese.fingerprint if japanese else '-'}"

    def spaces(self) -> list[str]:
        """Return the names of all spaces, including pairs."""
        return [f"{kind}_{name}" for name in self._texts for kind in (*self._cutters, PAIRS)]

    def analysis(self, texts: Mapping[str, str]) -> Analysis:
        return {
            f"{kind}_{name}": cut(texts[name])
            for name in self._texts
            if name in texts
            for kind, cut in self._cutters.items()
        }

    def joined(self, texts: Mapping[str, str], known: Analysis | None = None) -> JoinedAnalysis:
        """Return the tokens of every space. ``known``: the analysis of the texts, if it was made already."""
        found = {space: " ".join(tokens) for space, tokens in (known or self.analysis(texts)).items()}
        for name in self._texts:
            if name in texts:
                found[f"{PAIRS}_{name}"] = " ".join(self.pairs(texts[name]))
        return found

    def whole(self, texts: Mapping[str, str]) -> Iterator[tuple[str, list[str], int]]:
        """Yield the tokens of each space, in order and with gaps, and the length of the text there.

        Pairs are searched for only if they begin with a character of CJK, so ASCII has none. It has a length
        all the same: the average is that of all texts, as :meth:`joined` has it.
        """
        for space, tokens in self.analysis(texts).items():
            yield space, tokens, len(tokens) - tokens.count(GAP)
        for name in self._texts:
            if (text := texts.get(name)) is not None:
                pairs = [] if text.isascii() else self.pairs(text)
                yield f"{PAIRS}_{name}", pairs, len(pairs) or len(text)

    def pairs(self, text: str) -> list[str]:
        return substring_tokens(text)
