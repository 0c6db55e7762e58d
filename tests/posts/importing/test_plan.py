"""Arguments of an import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabane.errors import BadArguments
from tabane.posts.importing.importer import PostSources, plan
from tests.posts.importing.archives import (
    FIRST,
    row,
    safetensors,
    vector,
    write_csv,
    write_results,
    write_vectors,
    write_zip,
)

VECTORS = {FIRST: vector(1, 2, 3, 4)}


@pytest.fixture
def setup(tmp_path: Path) -> Path:
    """A folder as the original twilog has it."""
    write_csv(tmp_path / "twilog.csv", [row(FIRST, "one")])
    write_results(tmp_path / "batch" / "results.jsonl", [{"key": FIRST, "summary": "s"}])
    write_vectors(tmp_path / "embeddings", VECTORS, csv_path="twilog.csv")
    write_vectors(tmp_path / "batch" / "reasoning", VECTORS, source_path="batch/results.jsonl")
    write_vectors(tmp_path / "batch" / "summary", VECTORS, source_path="results.jsonl")
    return tmp_path


def whole(setup: Path) -> PostSources:
    return PostSources(
        csvs=(str(setup / "twilog.csv"),),
        results=(str(setup / "batch" / "results.jsonl"),),
        folders={
            "content": str(setup / "embeddings"),
            "reasoning": str(setup / "batch" / "reasoning"),
            "summary": str(setup / "batch" / "summary"),
        },
    )


def test_the_folder_of_an_original_set_up_is_all_of_it(setup: Path) -> None:
    assert plan([str(setup)]) == whole(setup)


def test_the_flags_of_the_original_lead_to_csv_and_results(setup: Path) -> None:
    found = plan(
        embeddings=str(setup / "embeddings"),
        reasoning=str(setup / "batch" / "reasoning"),
        summary=str(setup / "batch" / "summary"),
    )
    assert found == whole(setup)


def test_results_lie_beside_the_folders_where_no_metadata_name_them(setup: Path) -> None:
    meta = setup / "batch" / "summary" / "meta.json"
    meta.write_text(json.dumps({"model": json.loads(meta.read_text())["model"]}))
    assert plan([str(setup / "batch" / "summary")]).results == (str(setup / "batch" / "results.jsonl"),)


def test_every_file_is_known_by_what_it_holds(setup: Path) -> None:
    renamed = {"a": setup / "twilog.csv", "b": setup / "batch" / "results.jsonl"}
    paths = [str(path.rename(setup / name)) for name, path in renamed.items()]
    archive = write_zip(setup / "c", tweets=[])
    found = plan([*paths, archive, str(setup / "batch" / "reasoning")])
    assert found == PostSources(
        (paths[0],), (archive,), (paths[1],), {"reasoning": str(setup / "batch" / "reasoning")}
    )


def test_a_file_that_is_named_twice_is_read_once(setup: Path) -> None:
    (setup / "link.csv").symlink_to(setup / "twilog.csv")
    assert plan([str(setup), str(setup / "link.csv"), str(setup / "twilog.csv")]).csvs == whole(setup).csvs


def test_vectors_are_of_one_model(setup: Path) -> None:
    write_vectors(setup / "batch" / "summary", VECTORS, model="another/model")
    with pytest.raises(BadArguments) as raised:
        plan([str(setup)])
    assert "another/model" in str(raised.value)
    assert str(setup / "batch" / "summary") in str(raised.value)


def test_metadata_that_lead_nowhere_are_an_error_that_says_what_to_name(setup: Path) -> None:
    (setup / "twilog.csv").rename(setup / "moved.csv")
    with pytest.raises(BadArguments, match=r"name no existing twilog\.csv .*Give the file"):
        plan(embeddings=str(setup / "embeddings"))
    found = plan([str(setup / "moved.csv")], embeddings=str(setup / "embeddings"))
    assert found.csvs == (str(setup / "moved.csv"),)


def test_what_is_none_of_it_is_said_to_be_none(setup: Path) -> None:
    (setup / "empty").mkdir()
    (setup / "one.safetensors").write_bytes(safetensors(VECTORS, "F32", 4))
    (setup / "tweets.js").write_text("window.YTD.tweets.part0 = []")
    wrong = {
        "absent.csv": "does not exist",
        "empty": "not a folder that can be imported",
        "one.safetensors": "ive the folder",
        "embeddings/meta.json": "ive the folder",
        "tweets.js": "Give the zip",
        "batch": "not a folder that can be imported",
        "bad\0name": "does not exist",
    }
    for name, why in wrong.items():
        with pytest.raises(BadArguments, match=why):
            plan([f"{setup}/{name}"])
    with pytest.raises(BadArguments, match="at least one"):
        plan([])
    with pytest.raises(BadArguments, match="both contain vectors of content"):
        plan([str(setup)], embeddings=write_vectors(setup / "other", VECTORS, csv_path="embeddings"))
