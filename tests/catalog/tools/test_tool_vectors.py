"""Tools are found by what their definitions mean, beside their words."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.tools.index import ToolIndex, ToolQuery
from tabane.catalog.tools.tool import Tool
from tabane.catalog.tools.vector_table import BitVectors, cosine, vector_of
from tests.catalog.tools.lettered import direction, packed_unit, vector
from tests.catalog.tools.tools import tool

MODEL = "test/letters#1"
ZOO = [
    tool("jazz", "Jazz, jazz, jazz.", server="zoo"),
    tool("quokka", "Quokka, quokka.", server="zoo"),
    tool("fox", "A fox of the forest.", server="zoo"),
]


def embedded(index: ToolIndex, model: str = MODEL) -> list[str]:
    """Makes the vectors that are missing, and returns the texts of which they are."""
    made = []
    while gists := index.vectors.missing(model, 2):
        index.vectors.put(model, [(gist.key, vector(gist.text)) for gist in gists])
        made += [gist.text for gist in gists]
    return made


def found(index: ToolIndex, query: str, meant: str = "", limit: int = 5) -> list[str]:
    return [
        hit.alias for hit in index.search(ToolQuery(query, limit), {MODEL: [vector(meant or query)]}).hits
    ]


@pytest.fixture
def index() -> Iterator[ToolIndex]:
    index = ToolIndex(":memory:")
    index.replace("zoo", ZOO)
    yield index
    index.close()


# -- vectors in bits -----------------------------------------------------------------------------


def exact(one: bytes, other: bytes) -> float:
    return sum(a * b for a, b in zip(numbers(one), numbers(other), strict=True))


def numbers(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 4}f", packed)


@given(st.lists(st.floats(-1, 1, width=32), min_size=64, max_size=64).filter(any))
def test_a_vector_is_nearest_to_itself(values: list[float]) -> None:
    one = vector_of(packed_unit(values))
    assert cosine(one, one) == pytest.approx(1.0)


def test_a_cosine_of_bits_is_nearly_the_exact_one() -> None:
    made = [packed_unit(direction(seed)) for seed in range(60)]
    mixed = [
        packed_unit([a + 2 * b for a, b in zip(numbers(one), numbers(other), strict=True)])
        for one, other in itertools.pairwise(made)
    ]
    wrong = [
        abs(cosine(vector_of(one), vector_of(other)) - exact(one, other)) for one in made for other in mixed
    ]
    assert max(wrong) < 0.04
    assert sum(wrong) / len(wrong) < 0.012


def test_the_nearest_of_many_are_selected_and_compared() -> None:
    made = [packed_unit(direction(seed, 64)) for seed in range(2_000)]
    vectors = BitVectors()
    for number, each in enumerate(made):
        vectors.put(number, vector_of(each))
    for place in range(0, 2_000, 97):
        wanted = vector_of(made[place])
        near = vectors.nearest(wanted, None)
        assert len(near) < 600
        cosines = vectors.cosines(wanted, near)
        assert max(cosines, key=cosines.__getitem__) == place
        assert cosines[place] == pytest.approx(cosine(wanted, wanted))
    some = vectors.nearest(vector_of(made[5]), [4, 5, 6, 10_000])
    assert some == [4, 5, 6]


# -- search --------------------------------------------------------------------------------------


def test_a_tool_is_found_by_meaning_where_it_shares_no_word(index: ToolIndex) -> None:
    embedded(index)
    assert index.search(ToolQuery("zzazzjj")).hits == ()
    assert found(index, "zzazzjj")[0] == "zoo__jazz"


def test_words_and_meaning_both_count(index: ToolIndex) -> None:
    index.replace("more", [tool("jazzy", "Anything else.", server="more")])
    embedded(index)
    assert found(index, "quokka", meant="quokka")[0] == "zoo__quokka"
    hit = index.search(ToolQuery("jazz"), {MODEL: [vector("jazz jazz")]}).hits[0]
    by_words = index.search(ToolQuery("jazz")).hits[0]
    assert (hit.alias, by_words.alias) == ("zoo__jazz", "zoo__jazz")
    assert by_words.cosine is None
    assert hit.cosine is not None
    assert hit.cosine > 0.9
    assert 0 < hit.score <= 1


def test_a_tool_without_a_vector_is_not_pushed_out(index: ToolIndex) -> None:
    embedded(index)
    index.replace("more", [tool("fox_hunt", "Hunt a fox.", server="more")])
    names = found(index, "hunt fox")
    assert names[0] == "more__fox_hunt"
    assert "zoo__fox" in names


def test_without_any_vector_words_answer(index: ToolIndex) -> None:
    hits = index.search(ToolQuery("fox"), {MODEL: [vector("fox")]})
    assert [hit.alias for hit in hits.hits] == ["zoo__fox"]
    assert not hits.compared
    embedded(index)
    assert index.search(ToolQuery("fox"), {MODEL: [vector("fox")]}).compared


def test_filters_hold_for_meaning_too(index: ToolIndex) -> None:
    index.replace("other", [tool("jazz_too", "Jazz jazz.", server="other")])
    embedded(index)
    asked = {MODEL: [vector("jazz")]}
    assert [hit.alias for hit in index.search(ToolQuery("jazz", server="other"), asked).hits] == [
        "other__jazz_too"
    ]
    few = ToolQuery("jazz", names=frozenset({"zoo__jazz", "zoo__fox"}))
    assert index.search(few, asked).hits[0].alias == "zoo__jazz"
    assert "other__jazz_too" not in [hit.alias for hit in index.search(few, asked).hits]


def test_the_name_of_a_tool_finds_it_first_whatever_it_means(index: ToolIndex) -> None:
    embedded(index)
    best = index.search(ToolQuery("zoo__fox"), {MODEL: [vector("quokka")]}).hits[0]
    assert (best.alias, best.score) == ("zoo__fox", 1.0)


def test_what_no_tool_is_about_is_answered_by_none(index: ToolIndex) -> None:
    embedded(index)
    hits = index.search(ToolQuery("mmm"), {MODEL: [vector("mmm")]})
    assert hits.hits == ()
    assert hits.total == 0


def test_the_parts_of_a_score_are_the_score(index: ToolIndex) -> None:
    embedded(index)
    hits = index.search(ToolQuery("jazz forest", explain=True), {MODEL: [vector("jazz forest")]}).hits
    assert hits
    for hit in hits:
        assert sum(term.score for term in hit.terms) == pytest.approx(hit.score, abs=0.002)
    assert {term.kind for term in hits[0].terms} >= {"word", "meaning"}


def test_a_sentence_of_the_query_is_enough(index: ToolIndex) -> None:
    embedded(index)
    query, sentences = (
        ToolQuery("mmm. zz jj aa."),
        [vector("mmmmm zz jj aa"), vector("mmmmm"), vector("zzjja")],
    )
    whole = index.search(query, {MODEL: sentences[:1]}).hits
    apart = index.search(query, {MODEL: sentences}).hits
    assert apart[0].alias == "zoo__jazz"
    assert apart[0].score > max((hit.score for hit in whole), default=0.0)


# -- vectors that are kept -----------------------------------------------------------------------


def test_each_definition_is_embedded_once(index: ToolIndex) -> None:
    texts = embedded(index)
    assert len(texts) == len(ZOO)
    assert embedded(index) == []
    index.remove("zoo")
    index.replace("zoo", ZOO)
    assert embedded(index) == []
    index.replace("zoo", [*ZOO, tool("emu", "An emu.", server="zoo")])
    assert embedded(index) == ["emu: An emu."]
    assert found(index, "zzazzjj")[0] == "zoo__jazz"


def test_the_newest_tools_are_embedded_first(index: ToolIndex) -> None:
    index.replace("new", [tool("newest", "Comes last.", server="new")])
    assert index.vectors.missing(MODEL, 1)[0].text == "newest: Comes last."


def test_vectors_outlive_the_process(tmp_path: Path) -> None:
    first = ToolIndex(str(tmp_path / "tools.db"))
    first.replace("zoo", ZOO)
    embedded(first)
    first.close()
    second = ToolIndex(str(tmp_path / "tools.db"))
    assert embedded(second) == []
    assert found(second, "zzazzjj")[0] == "zoo__jazz"
    second.close()


def test_vectors_of_another_model_are_not_compared(index: ToolIndex) -> None:
    embedded(index, "test/letters#old")
    assert found(index, "zzazzjj") == []
    assert len(embedded(index)) == len(ZOO)
    index.vectors.clear([MODEL])
    assert found(index, "zzazzjj")[0] == "zoo__jazz"
    assert len(index.vectors.missing("test/letters#old", 10)) == len(ZOO)


def test_a_text_that_a_model_cannot_read_gets_no_vector_of_it(index: ToolIndex) -> None:
    english = "sentence-transformers/all-MiniLM-L6-v2#1"
    index.replace("経費", [tool("領収書", "領収書の画像から経費を登録します。", server="経費")])
    texts = embedded(index, english)
    assert len(texts) == len(ZOO)
    assert index.vectors.missing(english, 10) == []


def test_several_models_are_averaged(index: ToolIndex) -> None:
    embedded(index)
    embedded(index, "test/letters#2")
    both = {MODEL: [vector("jazz")], "test/letters#2": [vector("quokka")]}
    cosines = {hit.alias: hit.cosine for hit in index.search(ToolQuery("zzqq"), both).hits}
    alone = {hit.alias: hit.cosine for hit in index.search(ToolQuery("zzqq"), {MODEL: [vector("jazz")]}).hits}
    assert cosines["zoo__quokka"] is not None
    assert (cosines["zoo__jazz"] or 1.0) < (alone["zoo__jazz"] or 0.0)


# -- the same tool on several servers ---------------------------------------------------------------


def twins(*servers: str, description: str = "Create an issue in a repository.") -> dict[str, list[Tool]]:
    return {server: [tool("create_issue", description, server=server)] for server in servers}


def test_the_same_tool_on_several_servers_is_one_hit() -> None:
    index = ToolIndex(":memory:")
    for server, tools in twins("b", "a", "c").items():
        index.replace(server, tools)
    index.replace("d", [tool("create_issue", "Brew an espresso with milk.", server="d")])
    hits = index.search(ToolQuery("create an issue", folded=True)).hits
    assert hits[0].alias == "a__create_issue"
    assert hits[0].same == ("b__create_issue", "c__create_issue")
    assert "d__create_issue" in [hit.alias for hit in hits]


def test_nearly_the_same_description_is_the_same_tool() -> None:
    index = ToolIndex(":memory:")
    index.replace("a", twins("a")["a"])
    index.replace("b", twins("b", description="Create an issue in a repository!!")["b"])
    embedded(index)
    hits = index.search(ToolQuery("create an issue", folded=True), {MODEL: [vector("create issue")]}).hits
    assert [(hit.alias, hit.same) for hit in hits] == [("a__create_issue", ("b__create_issue",))]


def test_a_tool_is_not_folded_if_it_or_its_server_is_named() -> None:
    index = ToolIndex(":memory:")
    for server, tools in twins("alpha", "beta").items():
        index.replace(server, tools)
    by_server = index.search(ToolQuery("create an issue in beta", folded=True)).hits
    assert "beta__create_issue" in [hit.alias for hit in by_server]
    by_name = index.search(ToolQuery("beta__create_issue", folded=True)).hits
    assert by_name[0].alias == "beta__create_issue"
    of_one = index.search(ToolQuery("create an issue", server="beta", folded=True)).hits
    assert [(hit.alias, hit.same) for hit in of_one] == [("beta__create_issue", ())]


def test_folding_leaves_room_for_other_tools() -> None:
    index = ToolIndex(":memory:")
    for server, tools in twins("a", "b", "c", "d").items():
        index.replace(server, tools)
    index.replace("e", [tool("close_issue", "Close an issue.", server="e")])
    hits = index.search(ToolQuery("issue", limit=2, folded=True)).hits
    assert {hit.alias for hit in hits} == {"a__create_issue", "e__close_issue"}


# -- a model that joins two ----------------------------------------------------------------------

JOINED = "tabane/use-minilm#1"


def joined(common: list[float], *, english: bool) -> bytes:
    """A vector of 896 components, the last 384 of them zero unless the text is English."""
    length = 0.4**0.5 if english else 1.0
    body = [length * sign / 512**0.5 for sign in common]
    tail = [0.6**0.5 * (-1) ** place / 384**0.5 if english else 0.0 for place in range(384)]
    return struct.pack("<896f", *body, *tail)


def test_a_query_in_another_language_is_as_near_to_an_english_tool_as_by_what_both_have() -> None:
    index = ToolIndex(":memory:")
    index.replace("zoo", ZOO[:1])
    (gist,) = index.vectors.missing(JOINED, 5)
    common = [1.0, -1.0] * 256
    index.vectors.put(JOINED, [(gist.key, joined(common, english=True))])
    for english in (False, True):
        (hit,) = index.search(ToolQuery("x"), {JOINED: [joined(common, english=english)]}).hits
        assert hit.cosine == pytest.approx(1.0, abs=0.05)
    index.close()
