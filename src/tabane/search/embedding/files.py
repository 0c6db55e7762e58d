"""Which of a model's files are needed to run it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabane.errors import ModelMissing
from tabane.messages import say
from tabane.search.embedding.recipe import DESCRIBING

_GRAPHS = ("onnx/model.onnx", "model.onnx")
_WEIGHTS = "model.safetensors"
_TOKENIZER = "tokenizer.json"
_FOREIGN = ("onnx/", "openvino/", "coreml/", "gguf/")  # the same weights for other programs
_FOREIGN_ENDINGS = (".h5", ".ot", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".tflite", ".mlmodel")


def describing(paths: Sequence[str]) -> list[str]:
    """The files that say what the model is; any of them may be missing."""
    return [path for path in DESCRIBING if path in paths]


def graph_of(paths: Sequence[str], config: Mapping[str, Any]) -> str:
    """The ONNX graph, or the weights where one can be built of them (BERT). Raises ModelMissing."""
    if _TOKENIZER in paths:
        for graph in _GRAPHS:
            if graph in paths:
                return graph
        if _WEIGHTS in paths and config.get("model_type") == "bert" and config.get("hidden_act") == "gelu":
            return _WEIGHTS
    raise ModelMissing(
        say(
            "The model has no ONNX graph with a tokenizer. "
            "Install tabane[sentence-transformers] to run it, or name another."
        )
    )


def running(paths: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """The files that onnxruntime and tokenizers need: the graph first. Raises ModelMissing."""
    graph = graph_of(paths, config)
    beside = [path for path in paths if path.startswith((f"{graph}_data", f"{graph}.data"))]
    return [graph, *beside, _TOKENIZER, *describing(paths)]


def scoring(paths: Sequence[str]) -> list[str]:
    """The files of a model that scores pairs: the graph first. Raises ModelMissing."""
    graph = next((graph for graph in _GRAPHS if graph in paths), None)
    if graph is None or _TOKENIZER not in paths:
        raise ModelMissing(say("The reranker has no ONNX graph with a tokenizer: name another."))
    return running([path for path in paths if path != _WEIGHTS], {})


def of_sentence_transformers(paths: Sequence[str]) -> list[str]:
    """The files that sentence-transformers needs. Raises ModelMissing where it is none of its models."""
    if "modules.json" not in paths:
        raise ModelMissing(say("The model is none of sentence-transformers."))
    kept = [
        path
        for path in paths
        if not path.startswith((*_FOREIGN, ".")) and not path.endswith(_FOREIGN_ENDINGS)
    ]
    safe = any(path.endswith(".safetensors") for path in kept)
    # Pickled weights run what they please, and are the same once more.
    return [path for path in kept if not (safe and path.endswith((".bin", ".pt", ".pth")))]
