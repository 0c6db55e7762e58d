"""What each loader gives, against float64 by hand, on models made here."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tabane.search.embedding.model_families import Pooling
from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.worker.bert import WeightsFile, bert_graph
from tabane.search.embedding.worker.loading import load_model
from tabane.search.embedding.worker.model import LoadedModel, finished, pooled
from tests.search.embedding import tiny

TEXTS = ["the cat sat", "a dog", "", "猫 は 家 が 犬 unknown", "the red house and the blue tree " * 4]


def _spec(folder: Path, graph: str = "model.safetensors", **more: Any) -> ModelSpec:
    loader: Any = "weights" if graph.endswith(".safetensors") else "onnx"
    given = {"max_tokens": 16, "kept": str(folder / "kept"), **more}
    return ModelSpec(loader, str(folder), graph, **given)


def _vectors(model: LoadedModel, texts: Sequence[str] = TEXTS) -> tiny.Array:
    return model.vectors(model.tokens(texts))


def _expected(seed: int, pooling: Pooling, texts: Sequence[str] = TEXTS, most: int = 16) -> tiny.Array:
    tokenizer, weights = tiny.tokenizer(), tiny.weights(seed)
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    found = []
    for text in texts:
        states = tiny.states(tiny.CONFIG, weights, tokenizer.encode(text).ids)
        pools = {Pooling.MEAN: states.mean(0), Pooling.CLS: states[0], Pooling.LAST: states[-1]}
        found.append(tiny.unit(pools[pooling]))
    return np.stack(found)


@pytest.mark.parametrize("pooling", list(Pooling))
def test_a_graph_built_of_weights_gives_what_bert_gives(tmp_path: Path, pooling: Pooling) -> None:
    folder = tiny.make(tmp_path, seed=3)
    model = load_model(_spec(folder, pooling=pooling))
    assert model.dimension == 24
    assert np.abs(_vectors(model) - _expected(3, pooling)).max() < 2e-6


def test_a_text_alone_gives_what_it_gives_beside_longer_ones(tmp_path: Path) -> None:
    model = load_model(_spec(tiny.make(tmp_path)))
    alone = np.concatenate([_vectors(model, [text]) for text in TEXTS])
    assert np.abs(_vectors(model) - alone).max() < 2e-6


def test_texts_are_cut_to_what_the_model_takes(tmp_path: Path) -> None:
    model = load_model(_spec(tiny.make(tmp_path), max_tokens=6))
    assert max(len(tokens) for tokens in model.tokens(TEXTS)) == 6
    assert np.abs(_vectors(model) - _expected(1, Pooling.MEAN, most=6)).max() < 2e-6


def test_a_text_of_a_million_characters_is_cut_before_it_is_read(tmp_path: Path) -> None:
    model = load_model(_spec(tiny.make(tmp_path), max_tokens=6))
    assert np.array_equal(_vectors(model, ["cat " * 250_000]), _vectors(model, ["cat " * 96]))


def test_the_first_components_alone_are_of_length_one_again(tmp_path: Path) -> None:
    model = load_model(_spec(tiny.make(tmp_path), dimension=8))
    assert model.dimension == 8
    whole = _expected(1, Pooling.MEAN)[:, :8]
    assert np.abs(_vectors(model) - [tiny.unit(vector) for vector in whole]).max() < 2e-6


def test_a_graph_with_its_weights_beside_it_is_read_through_links(tmp_path: Path) -> None:
    """As the hub's cache has them: both are links to files of other names in another folder."""
    folder = tiny.make(tmp_path / "snapshots" / "c", seed=5)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    graph = bert_graph(tiny.CONFIG, WeightsFile(str(folder / "model.safetensors")).array)
    onnx.save(
        graph,
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=1000,
    )
    for name, blob in (("model.onnx", "aa"), ("model.onnx_data", "bb")):
        os.rename(folder / name, blobs / blob)
        os.symlink(f"../../blobs/{blob}", folder / name)
    model = load_model(_spec(folder, "model.onnx"))
    assert np.abs(_vectors(model) - _expected(5, Pooling.MEAN)).max() < 2e-6


def test_int8_is_near_and_only_products_of_matrices_are_changed(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path, seed=3)
    model = load_model(_spec(folder, int8=True))
    expected = _expected(3, Pooling.MEAN)
    found = _vectors(model)
    assert np.abs(found - expected).max() > 1e-5
    assert (found * expected).sum(axis=1).min() > 0.98
    (path,) = (folder / "kept").glob("int8-*.onnx")
    graph = onnx.load(path).graph
    kinds = {node.op_type for node in graph.node}
    assert "MatMulInteger" in kinds or "DynamicQuantizeMatMul" in kinds
    words = next(each for each in graph.initializer if each.name == "embeddings.word_embeddings.weight")
    assert words.data_type == TensorProto.FLOAT
    scales = [each for each in graph.initializer if each.name.endswith("_scale")]
    assert {tuple(each.dims) for each in scales} == {(24,), (40,)}  # one a channel


def test_a_graph_that_was_made_is_kept_for_its_revision(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path)
    for int8 in (False, True):
        load_model(_spec(folder, revision="1", int8=int8))
    made = {path: path.stat().st_mtime_ns for path in (folder / "kept").iterdir()}
    assert len(made) == 2
    load_model(_spec(folder, revision="1", int8=True))
    assert {path: path.stat().st_mtime_ns for path in (folder / "kept").iterdir()} == made
    tiny.make(tmp_path, seed=9)
    assert np.abs(_vectors(load_model(_spec(folder, revision="2"))) - _expected(9, Pooling.MEAN)).max() < 2e-6


def _toy(folder: Path, *, past: bool = False, output: str = "last_hidden_state", rank: int = 3) -> Path:
    """A graph that gives for each token its id and its position, or their sums for the text."""
    tiny.make(folder)
    names = ["input_ids", "attention_mask", "position_ids"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "t"]) for name in names]
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["position_ids"], ["places"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["ids", "last"], ["ids3"]),
        helper.make_node("Unsqueeze", ["places", "last"], ["places3"]),
        helper.make_node("Concat", ["ids3", "places3"], ["pairs" if rank == 2 or past else output], axis=2),
    ]
    shape: list[str | int] = ["b", "t", 2]
    if rank == 2:
        nodes.append(helper.make_node("ReduceSum", ["pairs", "middle"], [output], keepdims=0))
        shape = ["b", 2]
    if past:
        inputs.append(
            helper.make_tensor_value_info("past_key_values.0.key", TensorProto.FLOAT, ["b", 1, "p", 2])
        )
        nodes += [
            helper.make_node("Squeeze", ["past_key_values.0.key", "heads"], ["kept"]),
            helper.make_node("Concat", ["kept", "pairs"], [output], axis=1),
        ]
    constants = [
        numpy_helper.from_array(np.array([value]), name) for value, name in ((2, "last"), (1, "middle"))
    ]
    constants.append(numpy_helper.from_array(np.array([1]), "heads"))
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "toy", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    return folder


@pytest.mark.parametrize("past", [False, True])
def test_positions_and_an_empty_past_are_given_where_a_graph_wants_them(tmp_path: Path, past: bool) -> None:
    model = load_model(_spec(_toy(tmp_path, past=past), "model.onnx", pooling=Pooling.LAST))
    # The last of [CLS] the cat [SEP] is token 3 at position 3; of [CLS] [SEP], token 3 at position 1.
    expected = np.stack([tiny.unit(np.array([3.0, 3.0])), tiny.unit(np.array([3.0, 1.0]))])
    assert np.abs(_vectors(model, ["the cat", ""]) - expected).max() < 1e-6


def test_a_graph_that_pools_by_itself_is_left_to_do_so(tmp_path: Path) -> None:
    folder = _toy(tmp_path, output="sentence_embedding", rank=2)
    model = load_model(_spec(folder, "model.onnx", output="sentence_embedding"))
    # [CLS] the cat [SEP]: 2 + 4 + 6 - 1 + 3 = tokens, 0 + 1 + 2 + 3 = positions
    the, cat = (tiny.tokenizer().token_to_id(word) or 0 for word in ("the", "cat"))
    expected = tiny.unit(np.array([2 + the + cat + 3, 6.0]))
    assert np.abs(_vectors(model, ["the cat"])[0] - expected).max() < 1e-6


def test_an_output_that_is_not_there_is_an_error_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no output x, but last_hidden_state"):
        load_model(_spec(_toy(tmp_path), "model.onnx", output="x"))


def test_a_configuration_that_is_no_bert_is_refused(tmp_path: Path) -> None:
    folder = tiny.make(tmp_path)
    for change in (
        {"model_type": "roberta"},
        {"hidden_act": "relu"},
        {"position_embedding_type": "relative_key"},
    ):
        (folder / "config.json").write_text(json.dumps({**tiny.CONFIG, **change}))
        with pytest.raises(ValueError, match=str(next(iter(change.values())))):
            load_model(_spec(folder))


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\xff" * 16, b"\x02\0\0\0\0\0\0\0"])
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="not a safetensors file"):
        WeightsFile(str(tmp_path / "x"))


def test_weights_of_two_bytes_are_read_as_float32(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0], [0.25, 300.0]], np.float32)
    upper = (values.view(np.uint32) >> 16).astype(np.uint16)  # these have no lower half
    tiny.write_safetensors(
        tmp_path / "x", {"half": values.astype(np.float16), "brain": upper, "whole": values}
    )
    weights = WeightsFile(str(tmp_path / "x"))
    for name in ("half", "brain", "whole"):
        assert weights.array(name).dtype == np.float32
        assert np.array_equal(weights.array(name), values)


def test_padding_on_the_left_is_no_part_of_a_text() -> None:
    states = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    mask = np.array([[0, 1, 1, 0]])
    assert pooled(states, mask, Pooling.CLS).tolist() == [[3, 4, 5]]
    assert pooled(states, mask, Pooling.LAST).tolist() == [[6, 7, 8]]
    assert pooled(states, mask, Pooling.MEAN).tolist() == [[4.5, 5.5, 6.5]]


def test_vectors_without_a_length_or_a_number_are_told_apart() -> None:
    assert finished(np.zeros((1, 3)), 0).tolist() == [[0, 0, 0]]
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="no finite numbers"):
            finished(np.array([[1.0, bad]]), 0)


def test_sentence_transformers_gives_what_bert_gives(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    folder = tiny.make(tmp_path, seed=3)
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True})
    )
    model = load_model(ModelSpec("sentence-transformers", str(folder), max_tokens=16))
    assert np.abs(_vectors(model) - _expected(3, Pooling.MEAN)).max() < 2e-6
