"""Cross-encoders of a few thousand weights, made here, and what they must give: in float64, another way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, processors

from tabane.search.embedding.worker.bert import bert_graph
from tests.search.embedding import tiny


def make(folder: Path, seed: int = 1, labels: int = 1, most: int = 32) -> Path:
    """A folder with onnx/model.onnx and tokenizer.json, as authors publish rerankers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "onnx").mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(tiny.CONFIG))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": most}))
    tokenizer().save(str(folder / "tokenizer.json"))
    onnx.save(_graph(seed, labels), folder / "onnx" / "model.onnx")
    return folder


def tokenizer() -> Tokenizer:
    """Of pairs: the second text's tokens are of another kind."""
    made = tiny.tokenizer()
    made.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def head(seed: int, labels: int) -> tuple[tiny.Array, tiny.Array]:
    """The weights over the first token's state: hidden × labels, and labels."""
    random = np.random.default_rng(seed + 100)
    return (
        random.normal(0, 0.4, (24, labels)).astype(np.float32),
        random.normal(0, 0.4, labels).astype(np.float32),
    )


def expected(seed: int, labels: int, query: str, texts: Sequence[str], most: int = 32) -> tiny.Array:
    """The scores by hand: the text is cut, the question is not."""
    made, weights = tokenizer(), tiny.weights(seed)
    made.no_padding()
    factor, bias = head(seed, labels)
    found = []
    for text in texts:
        question = made.encode(query, add_special_tokens=False).ids
        passage = made.encode(text, add_special_tokens=False).ids[: most - 3 - len(question)]
        ids = [2, *question, 3, *passage, 3]
        kinds = [0] * (len(question) + 2) + [1] * (len(passage) + 1)
        states = tiny.states(tiny.CONFIG, weights, ids, kinds)
        logits = states[0] @ factor.astype(np.float64) + bias
        odds = np.exp(logits)
        found.append(float(1 / (1 + 1 / odds[0])) if labels == 1 else float(odds[1] / odds.sum()))
    return np.asarray(found)


def _graph(seed: int, labels: int) -> onnx.ModelProto:
    weights = tiny.weights(seed)
    made = bert_graph(tiny.CONFIG, weights.__getitem__)
    factor, bias = head(seed, labels)
    given = {"first": np.array(0, np.int64), "factor": factor, "bias": bias}
    made.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in given.items())
    made.graph.node.extend(
        [
            helper.make_node("Gather", ["last_hidden_state", "first"], ["cls"], axis=1),
            helper.make_node("MatMul", ["cls", "factor"], ["weighed"]),
            helper.make_node("Add", ["weighed", "bias"], ["logits"]),
        ]
    )
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", labels]))
    return made
