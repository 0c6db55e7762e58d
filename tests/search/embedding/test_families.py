from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.search.embedding.embedder import clean
from tabane.search.embedding.model_families import FAMILIES, ModelTraits, Pooling, family_of, reads
from tabane.search.embedding.model_files import MOST_TOKENS, Recipe, own_traits, settled


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("cl-nagoya/ruri-v3-310m", "ruri-v3"),
        ("cl-nagoya/ruri-v3-30m", "ruri-v3"),
        ("intfloat/multilingual-e5-small", "e5"),
        ("intfloat/e5-base-v2", "e5"),
        ("intfloat/multilingual-e5-large-instruct", "e5-instruct"),
        ("BAAI/bge-m3", "bge-m3"),
        ("bge-m3:567m", "bge-m3"),
        ("google/embeddinggemma-300m", "embeddinggemma"),
        ("onnx-community/embeddinggemma-300m-ONNX", "embeddinggemma"),
        ("embeddinggemma", "embeddinggemma"),
        ("Qwen/Qwen3-Embedding-0.6B", "qwen3-embedding"),
        ("qwen3-embedding:4b", "qwen3-embedding"),
        ("ibm-granite/granite-embedding-english-r2", "granite-r2"),
        ("ibm-granite/granite-embedding-107m-multilingual", "granite"),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm-l6"),
        ("all-minilm", "minilm-l6"),
        ("all-minilm:33m", "minilm-l6"),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "minilm"),
        ("hotchpotch/bekko-embedding-v1-a25m", "bekko"),
        ("someone/else", None),
        ("ruri-v3/other", None),
    ],
)
def test_a_model_is_of_a_family_by_the_last_part_of_its_id(model: str, family: str | None) -> None:
    found = family_of(model)
    assert (found and found.name) == family


def test_each_family_can_be_found_by_a_name_that_its_pattern_allows() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_a_family_is_known_by_a_fingerprint_too() -> None:
    family = family_of("sentence-transformers/all-MiniLM-L6-v2#0123456789abcdef")
    assert family is not None
    assert family.name == "minilm-l6"


def test_a_threshold_is_above_what_strangers_usually_have() -> None:
    known = [family.baseline for family in FAMILIES if family.baseline is not None]
    assert known
    assert all(-1 < strangers.usual < strangers.threshold < 1 for strangers in known)


@pytest.mark.parametrize(
    ("model", "text", "understood"),
    [
        ("sentence-transformers/all-MiniLM-L6-v2", "how to restart the server", True),
        ("sentence-transformers/all-MiniLM-L6-v2#0123456789abcdef", "東京の天気", False),
        ("all-minilm:33m", "Pythonの使い方", False),
        ("all-minilm", "a hotel in 東京", True),
        ("all-minilm", "Привет, мир", False),
        ("all-minilm", "naïve café", True),
        ("all-minilm", "304 !?", True),
        ("all-minilm", "", True),
        ("intfloat/e5-small-v2", "東京", False),
        ("intfloat/multilingual-e5-small", "東京", True),
        ("BAAI/bge-small-en-v1.5", "東京", False),
        ("BAAI/bge-m3", "東京", True),
        ("ibm-granite/granite-embedding-english-r2", "東京", False),
        ("ibm-granite/granite-embedding-107m-multilingual", "東京", True),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "東京", True),
        ("someone/else", "東京", True),
    ],
)
def test_a_model_of_english_alone_reads_no_other_script(model: str, text: str, understood: bool) -> None:
    assert reads(model, text) is understood


def test_ruri_has_a_prefix_for_each_kind() -> None:
    recipe = settled("cl-nagoya/ruri-v3-130m")
    assert [recipe.prefix(kind) for kind in ("query", "document", "topic")] == [
        "検索クエリ: ",
        "検索文書: ",
        "トピック: ",
    ]
    assert recipe.pooling is Pooling.MEAN


def test_pooling_is_that_of_the_family() -> None:
    assert settled("BAAI/bge-m3").pooling is Pooling.CLS
    assert settled("Qwen/Qwen3-Embedding-0.6B").pooling is Pooling.LAST
    assert settled("google/embeddinggemma-300m").output == "sentence_embedding"


def test_what_was_asked_for_goes_before_the_family_and_the_family_before_the_files() -> None:
    own = ModelTraits(Pooling.LAST, 99, query="q ", topic="t ")
    asked = ModelTraits(max_tokens=77, document="d ")
    assert settled("a/b", own=own, overrides=asked) == Recipe(
        "a/b", pooling=Pooling.LAST, max_tokens=77, query="q ", document="d ", topic="t "
    )
    recipe = settled("intfloat/multilingual-e5-small", own=own, overrides=ModelTraits(query=""))
    assert (recipe.query, recipe.document, recipe.max_tokens) == ("", "passage: ", 512)


def test_a_length_that_nobody_asked_for_is_bounded() -> None:
    assert settled("BAAI/bge-m3").max_tokens == MOST_TOKENS
    assert settled("BAAI/bge-m3", overrides=ModelTraits(max_tokens=8192)).max_tokens == 8192


def test_a_length_or_dimension_of_nothing_is_refused() -> None:
    for asked in (ModelTraits(max_tokens=0), ModelTraits(dimension=-1)):
        with pytest.raises(ConfigurationError, match="at least 1"):
            settled("a/b", overrides=asked)


def test_what_files_say_is_read() -> None:
    contents = {
        "1_Pooling/config.json": {"pooling_mode_cls_token": False, "pooling_mode_lasttoken": True},
        "sentence_bert_config.json": {"max_seq_length": 300},
        "tokenizer_config.json": {"model_max_length": 1e30},
        "config_sentence_transformers.json": {"prompts": {"query": "Q: ", "passage": "P: ", "x": 1}},
    }
    files = {path: json.dumps(content).encode() for path, content in contents.items()}
    assert own_traits(files) == ModelTraits(Pooling.LAST, 300, query="Q: ", document="P: ")
    del files["sentence_bert_config.json"]
    assert own_traits(files).max_tokens is None


@given(st.dictionaries(st.sampled_from(["1_Pooling/config.json", "tokenizer_config.json"]), st.binary()))
def test_files_that_say_nothing_sensible_say_nothing(files: dict[str, bytes]) -> None:
    assert settled("a/b", own=own_traits(files)) == Recipe("a/b")


_RECIPES = st.builds(
    Recipe,
    model=st.just("a/b"),
    revision=st.text(max_size=2),
    quantisation=st.sampled_from(["none", "int8"]),
    pooling=st.sampled_from(Pooling),
    max_tokens=st.integers(1, 3),
    query=st.sampled_from(["", "q"]),
    document=st.sampled_from(["", "q"]),
    topic=st.sampled_from(["", "q"]),
    dimension=st.integers(0, 1),
    output=st.sampled_from(["", "q"]),
)


@given(_RECIPES, _RECIPES, st.integers(1, 2), st.integers(1, 2))
def test_fingerprints_are_equal_exactly_where_everything_is(
    one: Recipe, other: Recipe, first: int, second: int
) -> None:
    # Components that were cut off, and that never were, are the same.
    same = (replace(one, dimension=0), first) == (replace(other, dimension=0), second)
    assert (one.fingerprint(first) == other.fingerprint(second)) == same


def test_a_fingerprint_is_the_same_for_ever() -> None:
    assert Recipe("a/b", "c").fingerprint(3) == "a/b#9aca72c426955a73"


@given(st.text() | st.just("\ud800x"))
def test_clean_text_can_be_encoded_and_is_otherwise_the_same(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert len(cleaned) == len(text)
