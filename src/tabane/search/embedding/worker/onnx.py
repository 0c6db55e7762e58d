"""Models as ONNX graphs: onnxruntime and tokenizers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from tabane.search.embedding.model_spec import ModelSpec
from tabane.search.embedding.worker.model import CHARACTERS, TokenizedText
from tabane.search.embedding.worker.pooling import Floats, Whole, finished, pooled

_STATES = ("last_hidden_state", "token_embeddings")
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}


class GraphSession:
    """A graph that takes tokens.

    It may want ``input_ids``, ``attention_mask``, ``token_type_ids``, ``position_ids`` and
    ``past_key_values.*`` (which stay empty).
    """

    def __init__(self, spec: ModelSpec, path: str) -> None:
        """Load the graph at ``path``. Raises ValueError where it asks for other inputs."""
        self._session = onnxruntime.InferenceSession(path, options(spec.threads), ["CPUExecutionProvider"])
        self._inputs = {entry.name: entry for entry in self._session.get_inputs()}
        if unknown := [name for name in self._inputs if not _known(name)]:
            raise ValueError(f"the graph wants {', '.join(unknown)}")
        self.outputs = [(out.name, out.shape) for out in self._session.get_outputs()]
        self.filler = _filler(spec.folder)

    def run(
        self, output: str, rows: Sequence[Sequence[int]], kinds: Sequence[Sequence[int]] | None = None
    ) -> tuple[npt.NDArray[Any], Whole]:
        """The output for rows of tokens, and their mask (rows × tokens), which is 1 where a token is real.

        ``kinds`` are the types of the tokens: 0 for all where there are none.
        """
        shape = len(rows), max(map(len, rows))
        ids: Whole = np.full(shape, self.filler, np.int64)
        mask: Whole = np.zeros(shape, np.int64)
        types: Whole = np.zeros(shape, np.int64)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
            if kinds is not None:
                types[row, : len(tokens)] = kinds[row]
        return self._session.run([output], self._feed(ids, mask, types))[0], mask

    def _feed(self, ids: Whole, mask: Whole, types: Whole) -> dict[str, npt.NDArray[Any]]:
        usual = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": types,
            "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        }
        return {
            name: usual[name] if name in usual else _empty(entry, len(ids))
            for name, entry in self._inputs.items()
        }


class OnnxModel:
    """A graph and its tokenizer. It gives states of tokens, which are pooled here, or a vector a text."""

    def __init__(self, spec: ModelSpec, graph: str) -> None:
        """Load the graph at that path. Raises ValueError where it asks for other inputs."""
        self._spec = spec
        self._graph = GraphSession(spec, graph)
        self._output = _chosen(self._graph.outputs, spec.output)
        self._tokenizer = tokenizer_of(spec)
        self._tokenizer.enable_truncation(spec.max_tokens)
        self.dimension = self.vectors(self.tokens(["a"])).shape[1]

    def tokens(self, texts: Sequence[str], query: str = "") -> list[TokenizedText]:
        most = self._spec.max_tokens * CHARACTERS
        found = self._tokenizer.encode_batch([text[:most] for text in texts])
        return [cast(TokenizedText, encoding.ids or [self._graph.filler]) for encoding in found]

    def vectors(self, batch: Sequence[TokenizedText]) -> Floats:
        states, mask = self._graph.run(self._output, cast(Sequence[Sequence[int]], batch))
        if states.ndim == 3:
            states = pooled(states.astype(np.float32, copy=False), mask, self._spec.pooling)
        return finished(states, self._spec.dimension)


def options(threads: int) -> Any:
    """A session's: so many threads, which wait for each other by spinning, but only while something runs."""
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = threads
    chosen.inter_op_num_threads = 1
    chosen.log_severity_level = 3
    chosen.add_session_config_entry("session.force_spinning_stop", "1")
    return chosen


def _known(name: str) -> bool:
    usual = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    return name in usual or name.startswith("past_key_values.")


def _chosen(outputs: Sequence[tuple[str, Sequence[object]]], wanted: str) -> str:
    names = [name for name, _ in outputs]
    if wanted:
        if wanted in names:
            return wanted
        raise ValueError(f"the graph has no output {wanted}, but {', '.join(names)}")
    usual = [name for name in _STATES if name in names]
    ranks = [[name for name, shape in outputs if len(shape) == rank] for rank in (3, 2)]
    return [*usual, *ranks[0], *ranks[1], *names][0]


def _empty(entry: Any, texts: int) -> npt.NDArray[Any]:
    # texts × heads × nothing yet × width: the second and the last are given, the others are names.
    shape = [side if isinstance(side, int) else 0 for side in entry.shape]
    return np.zeros([texts, *shape[1:]], _TYPES[entry.type])


def tokenizer_of(spec: ModelSpec) -> Tokenizer:
    """The tokenizer beside the graph, which cuts and pads nothing until it is told to."""
    tokenizer = Tokenizer.from_file(os.path.join(spec.folder, "tokenizer.json"))
    tokenizer.no_padding()  # the file may have its own, to a fixed length
    tokenizer.no_truncation()
    return tokenizer


def _filler(folder: str) -> int:
    """The token that stands where there is none."""
    try:
        with open(os.path.join(folder, "config.json"), "rb") as file:
            config: Mapping[str, Any] = json.load(file)
    except FileNotFoundError:
        return 0
    return int(config.get("pad_token_id") or 0)
