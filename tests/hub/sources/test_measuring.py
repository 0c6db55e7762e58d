"""Token counts for the configured model: from local files only, without waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from tabane.hub.sources.models.hub_models import HubModels
from tabane.search.chunking import Measure, chunks
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.model_finder import ModelFinder
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.embedding.model_packages import MINILM
from tests.harness.process_list import command
from tests.hub.sources.test_models import Place

ESTIMATED = "2:estimate/512"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def measured(place: Place, **more: Any) -> Measure:
    """The measure of a home's settings, asked for as a document is put: in a thread."""
    async with place.opened(**more) as models:
        return await asyncio.to_thread(models.measure)


def packed(hub: ModelHub, kept: str) -> ModelFinder:
    """A machine with the package of MiniLM."""
    return ModelFinder(hub, kept)


async def test_a_model_in_a_folder_measures_with_its_own_tokenizer_and_is_not_started(place: Place) -> None:
    place.set(model=place.model("one"))

    async with place.opened() as models:
        measure = await asyncio.to_thread(models.measure)
        assert measure.capacity == 16 - 2 - 1  # what it takes, less what is around a text and its title
        text = "the cat, the unheard-of dog"
        assert await asyncio.to_thread(measure.count, text) == 8
        assert await asyncio.to_thread(models.measure) is measure
        commands = [command(child) for child in psutil.Process().children()]
        assert not [command for command in commands if "tabane.search.embedding.worker" in command]
        assert (
            len(
                [
                    command
                    for command in commands
                    if "tabane.search.embedding.worker.token_counting" in command
                ]
            )
            == 1
        )
    assert not [child for child in psutil.Process().children() if "counting" in " ".join(command(child))]


async def test_another_model_or_another_length_is_another_measure(place: Place) -> None:
    one, two = place.model("one"), place.model("two", seed=2)
    names = []
    for values in ({"model": one}, {"model": two}, {"model": one, "model_max_tokens": 12}, {"model": "none"}):
        place.set(**values)
        names.append((await measured(place)).name)
    assert len(set(names)) == 4
    place.set(model=one)
    assert (await measured(place)).name == names[0]


async def test_the_installed_model_measures_by_default(place: Place) -> None:
    measure = await measured(place, make_finder=packed)
    assert measure.capacity == 494
    assert "universal-sentence-encoder" in measure.name


async def test_the_package_of_minilm_measures_where_it_is_named(place: Place) -> None:
    place.set(model=MINILM)
    measure = await measured(place, make_finder=packed)
    assert measure.capacity == 238
    assert "MiniLM" in measure.name


async def test_the_model_that_is_open_is_the_one_that_texts_are_cut_for(place: Place) -> None:
    place.set(model=place.model("one"))

    async with place.opened() as models:
        assert not isinstance(await models.wanted(), NoModel)
        (
            place.folder / "one" / "sentence_bert_config.json"
        ).unlink()  # another recipe, once it is opened again
        assert (await asyncio.to_thread(models.measure)).capacity == 13
    assert (await measured(place)).capacity == 494


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, ESTIMATED),
        ({"model": "none"}, ESTIMATED),
        ({"model": "intfloat/multilingual-e5-small"}, "2:estimate/491"),
        ({"model": "sentence-transformers/all-MiniLM-L6-v2@1234"}, "2:estimate/238"),
        ({"model": "text-embedding-3-small", "model_url": "http://127.0.0.1:9/v1"}, "2:estimate/494"),
        (
            {"model": "all-minilm", "model_url": "http://127.0.0.1:9/v1", "model_key": "${NOWHERE}"},
            "2:estimate/238",
        ),
        ({"model": "/nowhere/at/all"}, "2:estimate/494"),
    ],
)
async def test_what_has_no_tokenizer_here_is_estimated_by_what_is_known_of_its_family(
    place: Place, values: dict[str, str], name: str
) -> None:
    place.set(**values)
    measure = await measured(place)
    assert measure.name == name
    assert measure.count("What is it? 何か") > 4


async def test_a_model_whose_files_are_broken_is_estimated(place: Place) -> None:
    folder = Path(place.model("one"))
    place.set(model=str(folder))
    (folder / "tokenizer.json").write_text("no tokenizer")

    async with place.opened() as models:
        measure = await asyncio.to_thread(models.measure)
        assert await asyncio.to_thread(chunks, "the cat sat. " * 9, "text", measure)
        (folder / "tokenizer.json").unlink()
    assert (await measured(place)).name.startswith("2:estimate/")


async def test_on_an_event_loop_it_answers_all_the_same(place: Place) -> None:
    async with place.opened() as models:
        assert models.measure().name == ESTIMATED


async def test_after_the_end_everything_is_estimated(place: Place) -> None:
    place.set(model=place.model("one"))
    known: list[HubModels] = []

    async with place.opened() as models:
        known.append(models)
    assert known[0].measure().name == "2:estimate/13"
