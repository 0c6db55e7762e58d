"""Models of a hub: opened once on demand, found again by their fingerprint, never substituted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tabane.errors import BadArguments, ModelError, ModelMissing, StoreFull
from tabane.hub.context import HubContext
from tabane.hub.sources.models.hub_models import HubModels, QueryVectors
from tabane.hub.sources.models.model_opener import OPEN, OpenModels
from tabane.hub.work.jobs import Jobs
from tabane.messages import Message
from tabane.operations import Caller, Door, Face, OperationTable
from tabane.search.embedding.embedder import Embedder, NoModel
from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.search.embedding.minilm_encoder import minilm_encoder
from tabane.search.embedding.model_finder import ModelFinder
from tabane.search.embedding.model_hub import ModelHub
from tabane.search.embedding.model_packages import MINILM, PackedModel
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.settings import Settings, load_settings
from tests.harness.patience import LONG, until
from tests.search.embedding import crossing, tiny
from tests.search.embedding.servers import FakeHub, FakeService

LIMIT = LONG
CALLER = Caller("local", Face.RPC, "1")


class Kept:
    """What was embedded, in memory; ``full`` says what a disk does."""

    def __init__(self) -> None:
        self.vectors: dict[bytes, bytes] = {}
        self.full = False

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.vectors.get(name) for name in keys]

    async def put(self, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        if self.full:
            raise StoreFull(Message("no space"))
        self.vectors.update(vectors)

    @property
    def size(self) -> int:
        return sum(map(len, self.vectors.values()))


def _without_packages(hub: ModelHub, kept: str) -> ModelFinder:
    return ModelFinder(hub, kept, packed=lambda package, kept: None, universal=lambda: None)


class Place:
    """A home with its settings, and the models that a hub there has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.kept = Kept()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HF_HUB_OFFLINE": "1",
            "TABANE_HOME": str(self.home),
            "TABANE_CONFIG": str(folder / "tabane.toml"),
        }
        self.settings: Settings
        self.context: HubContext | None = None
        self.set()

    def set(self, **values: object) -> None:
        """Write the settings, and put them in force."""
        file = self.folder / "tabane.toml"
        file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
        file.chmod(0o600)
        self.settings = load_settings({}, self.environ)
        if self.context is not None:
            self.context.settings = self.settings

    def model(self, name: str, seed: int = 1) -> str:
        return str(tiny.make(self.folder / name, seed))

    def models(self, **more: Any) -> HubModels:
        async def kept() -> Kept:
            return self.kept

        more.setdefault("make_finder", _without_packages)
        self.context = self.context or HubContext(self.settings, self.environ, asyncio.get_running_loop())
        return HubModels(self.context, kept, **more)

    @asynccontextmanager
    async def opened(self, **more: Any) -> AsyncIterator[HubModels]:
        """Models of a hub, which leave no process behind."""
        models = self.models(**more)
        try:
            yield models
        finally:
            await models.close()
        assert workers() == []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def workers() -> list[psutil.Process]:
    """The embedding processes that this one has started."""
    found = []
    for child in psutil.Process().children():
        try:
            if "tabane.search.embedding.worker" in child.cmdline():
                found.append(child)
        except psutil.Error:
            continue
    return found


def opened(found: Embedder | NoModel) -> Embedder:
    assert not isinstance(found, NoModel), found.reason.render("en")
    return found


def reason(found: object) -> str:
    assert isinstance(found, NoModel)
    return found.reason.render("en")


def vector(text: str, seed: int = 1) -> tiny.Array:
    made = tiny.tokenizer()
    made.no_padding()
    return tiny.unit(tiny.states(tiny.CONFIG, tiny.weights(seed), made.encode(text).ids).mean(0))


def near(found: bytes | NoModel, text: str, seed: int = 1) -> bool:
    assert isinstance(found, bytes)
    return bool(np.abs(np.frombuffer(found, "<f4") - vector(text, seed)).max() < 2e-6)


async def call(models: HubModels, name: str, **params: Any) -> Any:
    """An operation through the door, a job until its end."""
    jobs = Jobs(asyncio.get_running_loop())
    door = Door(OperationTable([*models.table(), *jobs.table()]), jobs)
    try:
        found = await door.invoke(CALLER, name, json.dumps(params).encode())
        while isinstance(found, dict) and found.get("status") == "running":
            asked = {"job": found["job"], "version": found["version"], "wait": 5}
            found = await door.invoke(CALLER, "follow_job", json.dumps(asked).encode())
        return found
    finally:
        await jobs.close()


# -- opening -------------------------------------------------------------------------------------


async def test_a_model_is_opened_once_however_many_want_it_at_once(place: Place) -> None:
    place.set(model=place.model("one"))

    async with place.opened() as models:
        assert workers() == []
        found = await asyncio.gather(*(models.wanted() for _ in range(20)))
        assert len({opened(each).fingerprint for each in found}) == 1
        assert opened(found[0]).dimension == 24
        assert len(workers()) == 1
        assert near((await opened(found[0]).embed(["a cat"]))[0], "a cat")


@pytest.mark.heavy("a real embedding model")
async def test_the_model_that_made_vectors_serves_them_after_the_settings_name_another(place: Place) -> None:
    one, two = place.model("one"), place.model("two", seed=2)
    names: list[str] = []

    async with place.opened() as models:
        place.set(model=one)
        names.append(opened(await models.wanted()).fingerprint)
        place.set(model=two)  # as a reload does
        names.append(opened(await models.wanted()).fingerprint)
        assert near(await models.query(names[0], "a cat"), "a cat", seed=1)
        assert near(await models.query(names[1], "a cat"), "a cat", seed=2)
    assert len(set(names)) == 2
    assert (place.home / "models.json").stat().st_mode & 0o777 == 0o600
    async with place.opened() as models:
        assert near(await models.query(names[0], "a cat"), "a cat", seed=1)
        assert opened(await models.serving(names[0])).fingerprint == names[0]


async def test_a_recipe_that_was_set_comes_back_with_its_fingerprint(place: Place) -> None:
    folder = place.model("one")
    names: list[str] = []

    async with place.opened() as models:
        place.set(
            model=folder,
            model_query_prefix="the\\n",
            model_document_prefix="",
            model_pooling="cls",
            model_dimension=8,
            model_max_tokens=12,
            model_quantisation="int8",
        )
        names.append(opened(await models.wanted()).fingerprint)
    async with place.opened() as models:
        place.set(model="none")
        embedder = opened(await models.serving(names[0]))
        assert embedder.dimension == 8
        assert await embedder.embed(["cat"], "query") == await embedder.embed(["the\ncat"])


async def test_a_model_that_is_another_now_is_refused_with_the_command_that_mends_it(place: Place) -> None:
    place.set(model=place.model("one"))
    names: list[str] = []

    async with place.opened() as models:
        names.append(opened(await models.wanted()).fingerprint)
    place.model("one", seed=2)
    async with place.opened() as models:
        said = reason(await models.serving(names[0]))
        other = opened(await models.wanted()).fingerprint
        assert names[0] in said
        assert other in said
        assert "tabane models reembed" in said
        assert names[0] in reason(await models.query(names[0], "a cat"))


@pytest.mark.parametrize("torn", ["", "{", '{"models": {"x#1": 5', "[]", "\0" * 50])
async def test_a_torn_record_of_models_is_put_aside_and_begun_anew(place: Place, torn: str) -> None:
    place.set(model=place.model("one"))
    file = place.home / "models.json"
    file.write_text(torn)
    file.chmod(0o600)

    async with place.opened() as models:
        assert "tabane models reembed" in reason(await models.serving("one#0123456789abcdef"))
        name = opened(await models.wanted()).fingerprint
        assert list(json.loads(file.read_text())["models"]) == [name]
        assert file.with_suffix(".broken").read_text() == torn


async def test_a_record_that_cannot_be_read_does_not_hide_the_others(place: Place) -> None:
    place.set(model=place.model("one"))
    names: list[str] = []

    async with place.opened() as models:
        names.append(opened(await models.wanted()).fingerprint)
    file = place.home / "models.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({"models": {"x#1": 5, **content["models"], "y#2": {"model": 1}}}))
    place.set(model="none")
    async with place.opened() as models:
        assert near(await models.query(names[0], "a cat"), "a cat")


@pytest.mark.heavy("a real embedding model")
async def test_a_limited_number_of_models_is_open_and_one_that_was_closed_is_opened_again(
    place: Place,
) -> None:
    async with place.opened() as models:
        found = []
        for seed in range(1, OPEN + 3):
            place.set(model=place.model(f"m{seed}", seed))
            found.append(opened(await models.wanted()))
            assert len(workers()) <= OPEN
        told = (await call(models, "model_status"))["open"]
        assert [each["model"] for each in told] == [each.fingerprint for each in found[2:]]
        for seed, embedder in enumerate(found, 1):
            assert near((await embedder.embed(["a dog"]))[0], "a dog", seed)
        assert len(workers()) == OPEN


@pytest.mark.heavy("a real embedding model")
async def test_models_for_tools_do_not_depend_on_that_of_documents_and_start_with_the_first_text(
    place: Place,
) -> None:
    english: list[str | None] = [minilm_encoder()]

    def make(hub: Any, kept: str) -> ModelFinder:
        return ModelFinder(hub, kept, english=lambda: english[0])

    fingerprints: list[str] = []

    place.set(model=place.model("documents"))
    async with place.opened(make_finder=make) as models:
        found = await models.for_tools()
        assert not isinstance(found, NoModel)
        assert [each.fingerprint.partition("#")[0] for each in found] == [JOINED]
        assert [each.dimension for each in found] == [896]
        assert workers() == []
        fingerprints.extend(each.fingerprint for each in found)
        (vector,) = await found[0].embed(["a cat"])
        assert len(vector) == 896 * 4
        assert len(workers()) == 1
    async with place.opened(make_finder=make) as models:
        question = await models.query(fingerprints[0], "a cat")
        assert isinstance(question, bytes), reason(question)
        assert len(question) == 896 * 4
    english[0] = None
    async with place.opened(make_finder=make) as models:
        found = await models.for_tools()
        assert not isinstance(found, NoModel)
        assert [each.fingerprint.partition("#")[0] for each in found] == [USE]
    place.set(model="none")
    async with place.opened(make_finder=make) as models:
        assert "none" in reason(await models.for_tools())


async def test_without_an_installed_model_tools_have_none_and_the_reason_says_what_to_do(
    place: Place,
) -> None:
    async with place.opened() as models:
        assert "Reinstall Tabane" in reason(await models.for_tools())


async def test_other_threads_are_another_process_of_the_same_model(place: Place) -> None:
    folder = place.model("one")

    async def _one_but(pid: int) -> bool:
        return [each.pid != pid for each in workers()] == [True]

    async with place.opened() as models:
        place.set(model=folder, model_threads=1)
        first = opened(await models.wanted())
        (before,) = workers()
        place.set(model=folder, model_threads=2)
        assert opened(await models.wanted()).fingerprint == first.fingerprint
        await until(lambda: _one_but(before.pid))
        assert near((await first.embed(["a dog"]))[0], "a dog")


async def test_what_failed_is_said_for_a_while_and_then_tried_again(place: Place) -> None:
    folder = place.folder / "later"
    place.set(model=str(folder))

    async def _there(models: HubModels) -> bool:
        return not isinstance(await models.wanted(), NoModel)

    async with place.opened(remembered=0.3) as models:
        said = reason(await models.wanted())
        assert said.startswith("Search matches keywords only. There is no model folder")
        tiny.make(folder)
        assert reason(await models.wanted()) == said
        await until(lambda: _there(models))


async def test_none_is_none_and_starts_nothing(place: Place) -> None:
    place.set(model="none", model_url="http://127.0.0.1:9/v1")

    async with place.opened() as models:
        assert "The setting model is none." in reason(await models.wanted())
        assert (await call(models, "model_status"))["state"] == "none"
        with pytest.raises(ModelMissing, match="keywords only"):
            await call(models, "test_model")


async def test_closing_ends_every_process_and_what_is_being_opened(place: Place) -> None:
    place.set(model=place.model("one"))

    async with place.opened() as models:
        embedder = opened(await models.wanted())
        place.set(model=place.model("two", 2))
        opening = asyncio.create_task(models.wanted())
        await asyncio.sleep(0)
        await models.close()
        assert "is stopping" in reason(await opening)
        assert "is stopping" in reason(await models.query(embedder.fingerprint, "a dog"))
        with pytest.raises(ModelError):
            await embedder.embed(["a dog"])
        assert workers() == []


async def test_a_storage_that_fails_costs_no_answer(place: Place) -> None:
    place.set(model=place.model("one"))
    place.kept.full = True

    async with place.opened() as models:
        embedder = opened(await models.wanted())
        assert near((await embedder.embed(["a dog"]))[0], "a dog")
        place.kept.full = False
        await embedder.embed(["a dog", "a cat"])
        assert len(place.kept.vectors) == 2
        assert (await call(models, "model_status"))["cache"] == {"limit": 1 << 30, "bytes": 2 * 24 * 4}


# -- models known by their id alone --------------------------------------------------------------


async def test_an_id_without_a_fingerprint_is_served_by_that_model_at_any_revision(place: Place) -> None:
    place.set(model=place.model("one"))

    async with place.opened() as models:
        name = opened(await models.wanted()).fingerprint
        place.set(model="none")
        assert opened(await models.serving("one")).fingerprint == name
        assert near(await models.query("one", "a cat"), "a cat")


async def test_a_model_that_only_an_archive_names_is_taken_from_the_cache_and_never_fetched(
    place: Place,
) -> None:
    fake = FakeHub()
    fake.add("org/tiny", tiny.make(place.folder / "source"))

    async with place.opened() as models, fake.serving() as url:
        place.environ |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": url}
        place.set(model="none")
        assert "tabane models pull org/tiny" in reason(await models.serving("org/tiny"))
        assert fake.asked == []
        assert "is not the name" in reason(await models.serving("../../etc"))
        done = await call(models, "pull_model", model="org/tiny")
        assert done["status"] == "done", done
        assert done["done"] == done["total"] > 0
        assert opened(await models.serving("org/tiny")).fingerprint.startswith("org/tiny#")
        fake.asked.clear()
        assert near(await models.query("org/tiny", "a cat"), "a cat")
        assert fake.asked == []


async def test_a_model_that_another_home_used_serves_its_vectors_if_it_is_the_same_here(place: Place) -> None:
    fake = FakeHub()
    fake.add("org/tiny", tiny.make(place.folder / "source"))
    async with place.opened() as models, fake.serving() as url:
        place.environ |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": url}
        assert (await call(models, "pull_model", model="org/tiny"))["status"] == "done"
        name = opened(await models.serving("org/tiny")).fingerprint
    (place.home / "models.json").unlink()
    place.set(model="none")
    async with place.opened() as models:
        assert opened(await models.serving(name)).fingerprint == name
        assert near(await models.query(name, "a cat"), "a cat")
        assert "not recorded" in reason(await models.serving(f"{name}0"))


@pytest.mark.heavy("a real embedding model")
async def test_vectors_of_a_former_model_are_searched_while_auto_is_another(place: Place) -> None:
    package = str(tiny.make(place.folder / "package", seed=2))

    def make(hub: Any, kept: str) -> ModelFinder:
        return ModelFinder(hub, kept, packed=lambda _, __: PackedModel(package, "c" * 64))

    place.set(model=MINILM)
    async with place.opened(make_finder=make) as models:
        assert opened(await models.wanted()).fingerprint.startswith(MINILM)
    place.set()
    async with place.opened(make_finder=make) as models:
        told = await call(models, "model_status")
        assert (told["state"], told["id"], told["source"]) == ("here", JOINED, "package")
        assert opened(await models.wanted()).fingerprint.startswith(JOINED)
        told = await call(models, "model_status")
        assert (told["state"], told["dimension"]) == ("open", 896)
        (name,) = [
            name
            for name in json.loads((place.home / "models.json").read_text())["models"]
            if name.startswith(MINILM)
        ]
        assert near(await models.query(name, "a cat"), "a cat", seed=2)

        async def own() -> list[tuple[str, Message, str]]:
            return [("posts", Message("your posts"), name), ("pages", Message("pages"), f"{JOINED}#1")]

        models.collections = own
        (former,) = (await call(models, "model_status"))["former"]
        assert former == (
            f"Vectors of your posts were made with the model {MINILM}, which is still used to search them. "
            f"To use {JOINED}, run: tabane models reembed"
        )


async def test_a_model_that_is_to_be_fetched_is_said_to_be_absent_without_asking_anybody(
    place: Place,
) -> None:
    fake = FakeHub()
    fake.add("org/tiny", tiny.make(place.folder / "source"))
    place.set(model="org/tiny")

    async with place.opened() as models, fake.serving() as url:
        place.environ |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": url}
        told = await call(models, "model_status")
        assert (told["state"], told["id"]) == ("absent", "org/tiny")
        assert fake.asked == []
        place.set(model="org/tiny", model_offline=True)
        assert (await call(models, "model_status"))["state"] == "none"
        await models.wanted()
        assert fake.asked == []


async def test_what_is_no_name_of_a_model_is_not_fetched(place: Place) -> None:
    async with place.opened() as models:
        for name in ("../up", "/etc", "a/b/c", "a@../x"):
            done = await call(models, "pull_model", model=name)
            assert done["error"]["code"] == BadArguments.code, done


# -- questions -----------------------------------------------------------------------------------


async def test_a_question_that_comes_again_is_not_embedded_again(place: Place) -> None:
    service = FakeService()

    async with place.opened() as models, service.serving() as url:
        place.set(model="multilingual-e5-small", model_url=f"{url}/v1")
        name = opened(await models.wanted()).fingerprint
        service.asked.clear()
        found = await asyncio.gather(*(models.query(name, "cats") for _ in range(30)))
        assert len(set(found)) == 1
        assert [asked["input"] for asked in service.asked] == [["query: cats"]]
        await models.query(name, "dogs")
        await models.query(name, "cats")
        assert len(service.asked) == 2


async def test_questions_are_bounded_and_the_ones_asked_last_stay() -> None:
    asked: list[str] = []

    async def embed(model: str, text: str) -> bytes | NoModel:
        asked.append(text)
        return text.encode() if text != "none" else NoModel(Message("none"))

    questions = QueryVectors(embed, most=3)
    for text in ("a", "b", "c", "a", "d", "a", "b", "none", "none"):
        await questions.ask("m#1", text)
    assert len(questions) == 3
    assert await questions.ask("m#2", "a") == b"a"
    assert asked == ["a", "b", "c", "d", "b", "none", "none", "a"]


async def test_one_who_leaves_does_not_take_the_answer_of_others_along() -> None:
    free = asyncio.Event()

    async def embed(model: str, text: str) -> bytes | NoModel:
        await free.wait()
        return b"v"

    questions = QueryVectors(embed, most=3)
    first = asyncio.create_task(questions.ask("m#1", "a"))
    second = asyncio.create_task(questions.ask("m#1", "a"))
    await asyncio.sleep(0)
    first.cancel()
    free.set()
    assert await second == b"v"


async def test_a_question_does_not_wait_for_a_model_that_takes_long(place: Place) -> None:
    place.set(model=place.model("one"))
    names: list[str] = []

    async def _ready(models: HubModels) -> bool:
        return isinstance(await models.query(names[0], "a cat"), bytes)

    async with place.opened() as models:
        names.append(opened(await models.wanted()).fingerprint)
    async with place.opened(patience=0.02) as models:
        assert "not ready yet" in reason(await models.query(names[0], "a cat"))
        await until(lambda: _ready(models))  # it went on meanwhile


@pytest.mark.heavy("a real embedding model")
async def test_a_process_that_is_killed_in_the_middle_loses_no_question(place: Place) -> None:
    place.set(model=place.model("one"), model_batch_tokens=64)

    async with place.opened() as models:
        embedder = opened(await models.wanted())
        middle: list[bool] = []
        for number in range(3):
            (worker,) = workers()
            texts = [f"the {'cat ' * (place % 9)}{number} {place}" for place in range(3000)]
            bulk = asyncio.create_task(embedder.embed(texts))
            question = asyncio.create_task(models.query(embedder.fingerprint, f"dog {'a ' * number}"))
            await asyncio.sleep(0.05)
            worker.suspend()
            middle.append(not bulk.done())
            worker.kill()
            assert near(await question, f"dog {'a ' * number}")
            assert len(await bulk) == 3000
            assert near(
                await models.query(embedder.fingerprint, f"cat {'a ' * number}"), f"cat {'a ' * number}"
            )
        assert any(middle)


async def test_a_server_that_is_away_costs_a_question_its_vector_and_nothing_more(place: Place) -> None:
    service = FakeService()

    async with place.opened() as models, service.serving() as url:
        place.set(model="m", model_url=f"{url}/v1")
        name = opened(await models.wanted()).fingerprint
        service.faults = [(400, {})]
        assert "refused" in reason(await models.query(name, "a"))
        assert isinstance(await models.query(name, "a"), bytes)


# -- the key of a server -------------------------------------------------------------------------


async def test_the_key_of_a_server_comes_from_the_secrets_and_is_never_written_down(place: Place) -> None:
    service = FakeService()
    secrets = place.home / "secrets.env"
    names: list[str] = []

    async with place.opened() as models, service.serving() as url:
        place.set(model="m", model_url=f"{url}/v1", model_key="${MY_KEY}")
        said = reason(await models.wanted())
        assert "MY_KEY" in said
        assert str(secrets) in said
        secrets.write_text("MY_KEY=sk-geheim\n")
        secrets.chmod(0o600)
        names.append(opened(await models.wanted()).fingerprint)
        told = await call(models, "model_status")
        assert (told["source"], told["where"]) == ("server", f"{url}/v1")
        assert "geheim" not in json.dumps(told)

        place.set(model="none")
        again = place.models()
        try:
            assert isinstance(await again.query(names[0], "a"), bytes)
        finally:
            await again.close()
    assert set(service.keys) == {"Bearer sk-geheim"}
    written = (place.home / "models.json").read_text()
    assert "MY_KEY" in written
    assert "geheim" not in written


def test_a_key_that_is_written_where_its_name_belongs_is_refused_unseen(place: Place) -> None:
    with pytest.raises(Exception, match="must be a variable") as refused:
        place.set(model="m", model_url="http://127.0.0.1:9/v1", model_key="sk-geheim")
    assert "geheim" not in str(refused.value)


# -- the reranker --------------------------------------------------------------------------------


async def test_a_reranker_is_none_until_one_is_wanted_and_opened_with_its_first_question(
    place: Place,
) -> None:
    async with place.opened() as models:
        assert models.reranker() is None
        place.set(model="none", reranker=str(crossing.make(place.folder / "judge", seed=2)))
        reranker = models.reranker()
        assert reranker is not None
        assert workers() == []
        found = await asyncio.gather(*(reranker.score("the dog", ["a cat", "a dog"]) for _ in range(5)))
        assert len(workers()) == 1
        assert found[0] == pytest.approx(crossing.expected(2, 1, "the dog", ["a cat", "a dog"]), abs=2e-6)
        told = await call(models, "model_status")
        assert told["reranker_open"]["pid"] == workers()[0].pid
        place.set(model="none", reranker=str(crossing.make(place.folder / "other", seed=3)))
        scores = await reranker.score("the dog", ["a cat"])
        assert scores == pytest.approx(crossing.expected(3, 1, "the dog", ["a cat"]), abs=2e-6)
        assert len(workers()) == 1


async def test_a_reranker_that_cannot_be_had_says_why_and_is_not_tried_each_time(place: Place) -> None:
    place.set(model="none", reranker=str(place.folder / "nowhere"))

    async with place.opened() as models:
        reranker = models.reranker()
        assert reranker is not None
        with pytest.raises(ModelMissing, match="no model folder"):
            await reranker.score("a", ["b"])
        crossing.make(place.folder / "nowhere")
        with pytest.raises(ModelError, match="no model folder"):
            await reranker.score("a", ["b"])


# -- operations ----------------------------------------------------------------------------------


async def test_a_model_is_tested_by_what_it_makes_of_two_texts(place: Place) -> None:
    place.set(model=place.model("one"), model_query_prefix="the ")

    async with place.opened() as models:
        found = await call(models, "test_model", text="cat", other="dog")
        assert found.dimension == 24
        assert found.model.startswith("one#")
        assert 0 < found.ms < 60_000
        assert found.cosine == pytest.approx(float(vector("the cat") @ vector("dog")), abs=1e-4)
        assert (await call(models, "test_model")).cosine is None
        told = await call(models, "model_status")
        (process,) = told["open"]
        assert process["pid"] == workers()[0].pid
        assert sys.platform != "linux" or process["memory_mb"] > 10
        assert (told["state"], told["source"], told["where"]) == ("open", "folder", str(place.folder / "one"))


# -- what is open at the same time ---------------------------------------------------------------


class Thing:
    def __init__(self, name: str, things: list[Thing]) -> None:
        self.name = name
        self.closed = False
        things.append(self)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


async def test_what_is_in_use_is_never_closed_and_who_waits_for_its_place_gets_it() -> None:
    things: list[Thing] = []
    shelf: OpenModels[str, Thing] = OpenModels(2)

    async def use(name: str, free: asyncio.Event) -> None:
        standing = await shelf.open(name, lambda: started(name), lambda thing: thing.name)
        async with shelf.using(standing) as thing:
            await free.wait()
            assert not thing.closed

    async def started(name: str) -> Thing:
        assert len(shelf) < 2
        return Thing(name, things)

    def closed() -> list[str]:
        return [thing.name for thing in things if thing.closed]

    free = {name: asyncio.Event() for name in "abc"}
    tasks = {name: asyncio.create_task(use(name, free[name])) for name in "abc"}
    for _ in range(10):
        await asyncio.sleep(0)
    assert [each.name for each in shelf.standing] == ["a", "b"]
    free["a"].set()
    await tasks["a"]
    free["c"].set()
    await tasks["c"]
    assert closed() == ["a"]
    await use("a", free["a"])
    assert closed() == ["a", "c"]
    free["b"].set()
    await tasks["b"]
    await shelf.close()
    assert sorted(closed()) == ["a", "a", "b", "c"]


async def test_who_waits_for_a_place_when_all_is_closed_is_told_so() -> None:
    things: list[Thing] = []
    shelf: OpenModels[str, Thing] = OpenModels(1)

    async def started(name: str) -> Thing:
        return Thing(name, things)

    standing = await shelf.open("a", lambda: started("a"), lambda thing: thing.name)
    async with shelf.using(standing):
        waiting = asyncio.create_task(shelf.open("b", lambda: started("b"), lambda thing: thing.name))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await shelf.close()
        with pytest.raises(ModelError, match="is stopping"):
            await waiting
    with pytest.raises(ModelError, match="is stopping"):
        await shelf.open("a", lambda: started("a"), lambda thing: thing.name)
    assert [thing.closed for thing in things] == [True]


def test_a_hub_without_a_need_for_models_imports_nothing_of_them() -> None:
    code = "import sys, tabane.hub.sources.models.hub_models; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "onnx", "onnxruntime", "tokenizers", "aiohttp", "sqlite3", "tantivy"}
    assert not {*heavy, "tabane.search.embedding.model_finder", "importlib.metadata"} & set(
        loaded.stdout.split()
    )
