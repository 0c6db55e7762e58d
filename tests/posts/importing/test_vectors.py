"""Folders of vectors are read as stored."""

from __future__ import annotations

import json
import struct
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.posts.importing.import_report import RejectedRow
from tabane.posts.importing.model_results import VectorFolder, metadata
from tests.posts.importing.archives import safetensors, vector, write_vectors

VECTORS = {number: vector(number, 0.5, -1, 2) for number in range(1, 8)}


def indexed(folder: Path | str) -> VectorFolder:
    found = VectorFolder(str(folder), "content")
    list(found.index())
    return found


@given(st.lists(st.integers(0, 9), max_size=40))
def test_vectors_are_had_in_any_order(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    folder = indexed(write_vectors(tmp_path_factory.mktemp("vectors"), VECTORS))
    assert [folder.of(post) for post in order] == [VECTORS.get(post) for post in order]
    folder.close()


def test_files_are_all_read_whatever_the_metadata_count(tmp_path: Path) -> None:
    folder = indexed(write_vectors(tmp_path, VECTORS, chunks=1))
    assert {post: folder.of(post) for post in VECTORS} == VECTORS
    assert folder.size == 7 * (8 + 16)


@pytest.mark.parametrize(("dtype", "code"), [("F16", "e"), ("F64", "d")])
def test_other_floats_become_float32(tmp_path: Path, dtype: str, code: str) -> None:
    packed = {post: struct.pack(f"<4{code}", *array("f", each)) for post, each in VECTORS.items()}
    folder = indexed(write_vectors(tmp_path, packed, dtype=dtype))
    assert {post: folder.of(post) for post in VECTORS} == VECTORS


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path: Path) -> None:
    halves = {
        post: b"".join(each[at + 2 : at + 4] for at in range(0, 16, 4)) for post, each in VECTORS.items()
    }
    folder = indexed(write_vectors(tmp_path, halves, dtype="BF16"))
    assert {post: folder.of(post) for post in VECTORS} == VECTORS


@pytest.mark.parametrize("name", ["meta.json", "embeddings_meta.json"])
@pytest.mark.parametrize("key", ["source_path", "csv_path"])
def test_metadata_have_two_names_and_two_spellings(tmp_path: Path, name: str, key: str) -> None:
    (tmp_path / "twilog.csv").write_text("x")
    (folder := tmp_path / "embeddings").mkdir()
    (folder / name).write_text("\ufeff" + json.dumps({"model": " m ", key: "twilog.csv"}))
    found = metadata(str(folder))
    assert (found.model, found.dimension, found.source) == ("m", None, str(tmp_path / "twilog.csv"))


@pytest.mark.parametrize("model", [None, "", 3])
def test_a_missing_model_is_one_error_at_once_that_says_what_to_do(tmp_path: Path, model: object) -> None:
    with pytest.raises(BadArguments, match=r'does not say which model .* Add "model"'):
        VectorFolder(write_vectors(tmp_path, VECTORS, model=model), "content")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"model":"m","embedding_dim":-1}', '{"model":"m","embedding_dim":"4"}']
)
def test_bad_metadata_are_one_error(tmp_path: Path, text: str) -> None:
    write_vectors(tmp_path, VECTORS)
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(BadArguments, match=r"meta\.json"):
        VectorFolder(str(tmp_path), "content")


def test_files_that_do_not_fit_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    write_vectors(tmp_path, {1: VECTORS[1]})
    whole = safetensors({2: VECTORS[2]}, "F32", 4)
    bad = {
        "0001": whole[:-1],
        "0002": b"",
        "0003": safetensors({3: vector(1, 2, 3)}, "F32", 3),
        "0004": safetensors({4: VECTORS[4]}, "I32", 4),
        "0005": whole.replace(b"post_ids", b"row_keys"),
        "0006": b"\xff" * 100,
        "0007": safetensors({5: VECTORS[5] * 2}, "F32", 4),
    }
    for name, content in bad.items():
        (tmp_path / f"{name}.safetensors").write_bytes(content)
    folder = VectorFolder(str(tmp_path), "content")
    assert list(folder.index()) == [1]
    assert [Path(each.source).stem for each in folder.bad_files] == sorted(bad)


def test_a_folder_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadArguments, match="3 dimensions instead of 4"):
        VectorFolder(
            write_vectors(tmp_path / "a", {1: vector(1, 2, 3)}, dimension=3, embedding_dim=4), "content"
        )
    (folder := tmp_path / "b").mkdir()
    (folder / "meta.json").write_text('{"model":"m"}')
    with pytest.raises(BadArguments, match=r"no file NNNN\.safetensors"):
        VectorFolder(str(folder), "content")


def test_ids_that_are_none_are_told(tmp_path: Path) -> None:
    found = list(
        VectorFolder(
            write_vectors(tmp_path, {0: VECTORS[1], 5: VECTORS[5], -3: VECTORS[2]}), "content"
        ).index()
    )
    assert [each for each in found if isinstance(each, int)] == [5]
    assert [str(each.reason) for each in found if isinstance(each, RejectedRow)] == [
        "“0” is not a post_id",
        "“-3” is not a post_id",
    ]
