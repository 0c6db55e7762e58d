"""Collections are embedded automatically, and again when the model changes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.errors import BadArguments
from tabane.hub.sources.embedding_lane import NEXT
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.embedding_service import EmbeddingService, ServedEmbedder
from tabane.search.embedding.model_files import Recipe
from tabane.search.engine import Collection
from tabane.search.records import EVERYTHING
from tests.harness.patience import LONG
from tests.hub.sources.letter_models import (
    CALLER,
    NOTES,
    EmbeddingHub,
    LetterModel,
    LetterModels,
    embedding_hub,
    note,
)
from tests.search.embedding.servers import FakeService

# Side by side, so that few pages hold all asides: each page is a kill below.
MANY = [note(number, f"note {number}", "aside" if number < 100 else "") for number in range(300)]


async def nearest(built: EmbeddingHub, text: str) -> str:
    collection = await built.collection()
    question = await built.embedding.question(collection, text, ["body"])
    assert not isinstance(question, NoModel)
    assert question.query is not None
    return (await collection.nearest(question.query, EVERYTHING, 1)).hits[0].key


def model_of(collection: Collection, name: str = "body") -> str | None:
    return next((space.model for space in collection.spaces if space.name == name), None)


async def test_what_is_written_is_found_by_meaning_soon(tmp_path: Path) -> None:
    models = LetterModels(LetterModel("a"), wants="a")
    async with embedding_hub(tmp_path, models) as built:
        collection = await built.collection()
        await collection.upsert([note(1, "zzz"), note(2, "qqq", "yyy"), note(3, " ")])
        built.embedding.wake("notes")
        await built.quiet()
        assert await nearest(built, "zz") == "n00001"
        assert sorted(models.known["a"].embedded) == ["qqq", "yyy", "zzz"]  # blank is nothing to embed
        await collection.upsert([note(1, "kkk")])
        built.embedding.wake("notes")
        await built.quiet()
        assert await nearest(built, "kkkk") == "n00001"
        assert models.known["a"].embedded.count("qqq") == 1


async def test_a_space_is_made_only_for_texts_that_are_there(tmp_path: Path) -> None:
    async with embedding_hub(tmp_path, LetterModels(LetterModel("a"), wants="a")) as built:
        collection = await built.collection()
        built.embedding.wake("notes")
        await built.quiet()
        assert not collection.spaces
        await collection.upsert([note(1, "zzz")])
        built.embedding.wake("notes")
        await built.quiet()
        assert [space.name for space in collection.spaces] == ["body"]
        with pytest.raises(BadArguments, match=r"no vectors of aside\. Available: body"):
            await built.embedding.question(collection, "x", ["aside"])


async def test_without_a_model_the_reason_is_told_and_later_it_goes_on(tmp_path: Path) -> None:
    models = LetterModels(LetterModel("a"))
    async with embedding_hub(tmp_path, models) as built:
        await (await built.collection()).upsert([note(1, "zzz")])
        built.embedding.wake("notes")
        await built.quiet()
        why = await built.embedding.question(await built.collection(), "zz", ["body"])
        assert isinstance(why, NoModel)
        assert str(why.reason) == "Nothing was found."
        models.wants = "a"
        built.embedding.wake("notes")
        await built.quiet()
        assert await nearest(built, "zz") == "n00001"


async def test_a_collection_keeps_its_model_until_it_is_reembedded(tmp_path: Path) -> None:
    models = LetterModels(LetterModel("old"), LetterModel("new"), wants="old")
    async with embedding_hub(tmp_path, models) as built:
        collection = await built.collection()
        await collection.upsert([note(1, "zzz"), note(2, "qqq", "yyy")])
        built.embedding.wake("notes")
        await built.quiet()
        models.wants = "new"
        await collection.upsert([note(3, "kkk")])
        built.embedding.wake("notes")
        await built.quiet()
        assert model_of(collection) == "old"
        assert models.known["new"].embedded == []
        ended = await built.job("reembed")
        assert ended["result"] == {
            "model": "new",
            "results": [{"collection": "notes", "spaces": ["body", "aside"]}],
        }
        assert {space.name: space.model for space in collection.spaces} == {"body": "new", "aside": "new"}
        assert await nearest(built, "kk") == "n00003"
        assert (await built.job("reembed"))["result"]["results"][0]["spaces"] == []


async def test_the_old_model_serves_until_the_new_one_is_done(tmp_path: Path) -> None:
    slow = LetterModel("new", gate=asyncio.Event())
    models = LetterModels(LetterModel("old"), slow, wants="old")
    async with embedding_hub(tmp_path, models) as built:
        collection = await built.collection()
        await collection.upsert([note(1, "zzz"), note(2, "qqq")])
        built.embedding.wake("notes")
        await built.quiet()
        models.wants = "new"
        ending = asyncio.ensure_future(built.job("reembed"))
        async with asyncio.timeout(LONG):
            await slow.steps.get()
        assert "body" + NEXT in [space.name for space in collection.spaces]
        assert await nearest(built, "zz") == "n00001"
        assert model_of(collection) == "old"
        assert slow.gate is not None
        slow.gate.set()
        assert (await ending)["status"] == "done"
        assert model_of(collection) == "new"
        assert await nearest(built, "zz") == "n00001"


async def test_what_is_derived_follows_the_settings(tmp_path: Path) -> None:
    derived = type(NOTES)(NOTES.domain, NOTES.shape, NOTES.spaces, NOTES.text, follows=True)
    models = LetterModels(LetterModel("old"), LetterModel("new"), wants="old")
    async with embedding_hub(tmp_path, models, derived) as built:
        collection = await built.collection()
        await collection.upsert([note(1, "zzz")])
        for name in ("old", "new"):
            models.wants = name
            built.embedding.wake("notes")
            await built.quiet()
            assert model_of(collection) == name
            assert await nearest(built, "zz") == "n00001"


async def test_a_job_that_is_cancelled_leaves_what_it_did(tmp_path: Path) -> None:
    models = LetterModels(LetterModel("a", pause=0.01), wants="a")
    async with embedding_hub(tmp_path, models) as built:
        collection = await built.collection()
        await collection.upsert(MANY)
        built.embedding.wake("notes")
        async with asyncio.timeout(LONG):
            for _ in range(2):
                await models.known["a"].steps.get()
        (job,) = (await built.door.invoke(CALLER, "list_jobs", b"{}"))["results"]
        await built.jobs.cancel(built.jobs.get(job["job"]))
        await built.embedding.idle()
        assert await built.lacking() > 0
        why = await built.embedding.question(await built.collection(), "x", ["body"])
        assert not isinstance(why, NoModel)
        built.embedding.wake("notes")
        await built.quiet()
        assert await built.lacking() == 0


async def test_what_a_slow_service_answered_before_it_was_gone_is_kept(tmp_path: Path) -> None:
    """The first requests time out, and those with one of the texts always do."""
    texts = [f"note {number}" for number in range(60)]
    service = FakeService()
    async with service.serving() as url:
        served = EmbeddingService(f"{url}/v1", timeout=2, attempts=1, pause=0.01)
        model = await ServedEmbedder.open(Recipe("slow"), served)
        async with embedding_hub(tmp_path, ServedModels(model)) as built:
            collection = await built.collection()
            await collection.upsert([note(number, text) for number, text in enumerate(texts)])
            service.unanswered, service.stuck = 2, {texts[20]}
            built.embedding.wake("notes")
            await built.quiet()
            embedded = await collection.embedded("body", EVERYTHING)
            assert embedded == 59  # all but the one that is never answered
            service.stuck = set()
            asked = len(service.asked)
            built.embedding.wake("notes")
            await built.quiet()
            assert [each["input"] for each in service.asked[asked:]] == [[texts[20]]]
            assert await built.lacking() == 0
            states = (await built.door.invoke(CALLER, "list_jobs", b"{}"))["results"]
            assert [(state["status"], state["done"], state["total"]) for state in states] == [
                ("done", 60, 60),
                ("failed", 59, 60),
            ]
        await model.close()


class ServedModels(LetterModels):
    """The one model of a service."""

    def __init__(self, model: ServedEmbedder) -> None:
        super().__init__(wants=model.fingerprint)
        self._served = model

    async def serving(self, model: str) -> Embedder | NoModel:
        return self._served


@pytest.mark.heavy("a real embedding model")
@pytest.mark.parametrize("first", ["a", "new"])
def test_killed_while_it_embeds_it_goes_on_where_it_stood(tmp_path: Path, first: str) -> None:
    async def write(serving: str) -> None:
        async with embedding_hub(tmp_path, LetterModels(LetterModel(serving), wants=serving)) as built:
            collection = await built.collection()
            await collection.upsert(MANY)
            if serving == "old":
                built.embedding.wake("notes")
                await built.quiet()

    # "new" takes the place of "old": the kill comes while a space is filled beside the one that serves.
    asyncio.run(write("a" if first == "a" else "old"))
    kills = 0
    for _ in range(40):
        if _killed_after_a_step(tmp_path, first):
            kills += 1
        else:
            break
    assert kills > 0

    async def look() -> None:
        models = LetterModels(LetterModel("old"), LetterModel(first), wants=first)
        async with embedding_hub(tmp_path, models) as built:
            built.embedding.open()
            await built.quiet()
            collection = await built.collection()
            assert {space.name: space.model for space in collection.spaces} == {"body": first, "aside": first}
            assert await built.lacking() == await built.lacking("aside") == 0
            model = models.known[first]
            keys = [record.key for record in MANY]
            vectors = await collection.vectors(keys, "body")
            assert vectors == [model.vector(record.texts["body"]) for record in MANY]

    asyncio.run(look())


def test_killed_while_it_embeds_again_the_old_model_serves(tmp_path: Path) -> None:
    async def write() -> None:
        async with embedding_hub(tmp_path, LetterModels(LetterModel("old"), wants="old")) as built:
            await (await built.collection()).upsert([*MANY, note(900, "zzz")])
            built.embedding.wake("notes")
            await built.quiet()

    asyncio.run(write())
    assert _killed_after_a_step(tmp_path, "new")

    async def look() -> None:
        new = LetterModel("new", gate=asyncio.Event())
        async with embedding_hub(tmp_path, LetterModels(LetterModel("old"), new, wants="new")) as built:
            built.embedding.open()
            async with asyncio.timeout(LONG):
                await new.steps.get()
            collection = await built.collection()
            assert model_of(collection) == "old"
            assert await nearest(built, "zz") == "n00900"
            assert new.gate is not None
            new.gate.set()
            await built.quiet()
            assert model_of(collection) == "new"
            assert {space.name: space.model for space in collection.spaces} == {"body": "new", "aside": "new"}
            assert len(new.embedded) < len(MANY) + 1 + 100  # the rest was there before the kill

    asyncio.run(look())


def _killed_after_a_step(home: Path, model: str) -> bool:
    """Let a child embed, and kill it when it has made some of the way. False where it was done before."""
    arguments = [sys.executable, "-m", "tests.hub.sources.letter_models", str(home), model]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.startswith(("step", "done")):
                done = line.startswith("done")
                break
        else:
            raise AssertionError("the child died by itself")
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
        child.wait(LONG)
        child.stdout.close()
    return not done
