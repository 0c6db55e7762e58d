"""From a spec to the model that it names; graphs that were made for it are kept."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile

from tabane.search.embedding.model_spec import ModelSpec
from tabane.search.embedding.worker.model import LoadedModel

_MAKING = 1  # counts up when graphs are made in another way


def load_model(spec: ModelSpec) -> LoadedModel:
    """The model, ready. Raises ImportError where a package is missing, else whatever was wrong with it."""
    if spec.loader == "sentence-transformers":
        from tabane.search.embedding.worker.sentence import SentenceModel

        return SentenceModel(spec)
    if spec.scores:
        from tabane.search.embedding.worker.pairs import PairModel

        return PairModel(spec, _graph(spec))
    from tabane.search.embedding.worker.onnx import OnnxModel

    return OnnxModel(spec, _graph(spec))


def _graph(spec: ModelSpec) -> str:
    """The path of the graph, made first where it has to be."""
    graph = os.path.join(spec.folder, spec.graph)
    if spec.loader == "weights":
        graph = _built(spec, graph)
    return _quantised(spec, graph) if spec.int8 else graph


def _built(spec: ModelSpec, weights: str) -> str:
    path = _place(spec, "float32", "")
    if not os.path.exists(path):
        import onnx

        from tabane.search.embedding.worker.bert import bert_graph
        from tabane.search.embedding.worker.safetensors import WeightsFile

        with open(os.path.join(spec.folder, "config.json"), "rb") as file:
            config = json.load(file)
        with tempfile.TemporaryDirectory(dir=spec.kept, prefix="making-") as room:
            made = os.path.join(room, "float32.onnx")
            onnx.save(bert_graph(config, WeightsFile(weights).array), made)
            os.replace(made, path)
    return path


def _quantised(spec: ModelSpec, graph: str) -> str:
    import onnxruntime

    path = _place(spec, "int8", onnxruntime.__version__)
    if not os.path.exists(path):
        from tabane.search.embedding.worker.int8 import quantised

        quantised(graph, path)
    return path


def _place(spec: ModelSpec, kind: str, maker: str) -> str:
    """Where the graph of this kind is, or is to be: another model, or another maker, has another place."""
    os.makedirs(spec.kept, mode=0o700, exist_ok=True)
    facts = json.dumps([_MAKING, maker, spec.folder, spec.graph, spec.revision])
    return os.path.join(spec.kept, f"{kind}-{hashlib.sha256(facts.encode()).hexdigest()[:32]}.onnx")
