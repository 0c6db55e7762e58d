"""The gathered postings of texts are those of a plain count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tabane.engine.team.postgres.lexical_index import ENTRY, PostingBatch
from tabane.search.analysis import GAP

TOKENS = st.lists(st.sampled_from(["a", "b", "猫だ", "x" * 300, "x" * 301, "n\0", GAP]), max_size=12)
Postings = dict[str, list[tuple[int, int, int, list[int]]]]


def expected(texts: list[tuple[str, list[str]]]) -> Postings:
    found: Postings = {}
    for row, (space, tokens) in enumerate(texts):
        length = sum(token != GAP for token in tokens)
        places: dict[str, list[int]] = {}
        for place, token in enumerate(tokens):
            if token == GAP or (space == "s_body" and token != "猫だ"):
                continue
            key = f"{space} {token[:200]}".replace("\0", "\U0002fffe")
            places.setdefault(key, []).append(place)
        for key, at in places.items():
            found.setdefault(key, []).append((row, len(at), length, at))
    return found


def unpacked(batch: PostingBatch) -> Postings:
    found: Postings = {}
    for token, entries, places in batch.parts():
        at = np.frombuffer(places, dtype="<u4").tolist()
        for row, count, length in np.frombuffer(entries, dtype=ENTRY).tolist():
            found.setdefault(token, []).append((row, count, length, at[:count]))
            del at[:count]
        assert at == []
    return found


@given(st.lists(st.tuples(st.sampled_from(["t_body", "s_body"]), TOKENS), max_size=8))
def test_parts_have_rows_counts_lengths_and_places(texts: list[tuple[str, list[str]]]) -> None:
    batch = PostingBatch()
    for row, (space, tokens) in enumerate(texts):
        batch.add(space, row, tokens, sum(token != GAP for token in tokens))
    assert unpacked(batch) == expected(texts)
    keys = [token for token, _, _ in batch.parts()]
    assert keys == sorted(keys)
