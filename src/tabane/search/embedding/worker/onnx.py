"""Models as ONNX graphs: onnxruntime and tokenizers."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence, Sized
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Encoding, Tokenizer

from tabane.search.embedding.process_requests import ModelSpec
from tabane.search.embedding.worker.model import CHARACTERS, Floats, Whole, finished, pooled

_STATES = ("last_hidden_state", "token_embeddings")
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}


class GraphSession:
    """A graph that takes tokens.

    Its inputs may be ``input_ids``, ``attention_mask``, ``token_type_ids``, ``position_ids`` and
    ``past_key_values.*`` (which stay empty).
    """

    def __init__(self, spec: ModelSpec, path: str) -> None:
        """Load the graph at ``path``. Raises ValueError where it asks for other inputs."""
        self._session = onnxruntime.InferenceSession(path, options(spec.threads), ["CPUExecutionProvider"])
        self._inputs = {entry.name: entry for entry in self._session.get_inputs()}
        usual = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
        unknown = [name for name in self._inputs if not name.startswith("past_key_values.")]
        if unknown := [name for name in unknown if name not in usual]:
            raise ValueError(f"the graph wants {', '.join(unknown)}")
        self.outputs = [(out.name, out.shape) for out in self._session.get_outputs()]
        self.filler = 0  # the token for padding
        with (
            contextlib.suppress(FileNotFoundError),
            open(os.path.join(spec.folder, "config.json"), "rb") as file,
        ):
            self.filler = int(json.load(file).get("pad_token_id") or 0)

    def run(
        self, output: str, rows: Sequence[Sequence[int]], kinds: Sequence[Sequence[int]] | None = None
    ) -> tuple[npt.NDArray[Any], Whole]:
        """Return the output for rows of tokens. ``mask`` (rows × tokens) is 1 for a real token.

        ``kinds`` are the types of the tokens; None: all 0.
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
        usual = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": types,
            "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        }
        inputs = {
            name: usual[name] if name in usual else _empty(entry, len(ids))
            for name, entry in self._inputs.items()
        }
        return self._session.run([output], inputs)[0], mask


class OnnxModel:
    """A graph and its tokenizer.

    It returns states of tokens, which are pooled here, or one vector for each text.
    """

    pads = True

    def __init__(self, spec: ModelSpec, graph: str) -> None:
        """Load the graph at that path. Raises ValueError where it asks for other inputs."""
        self._spec = spec
        self._graph = GraphSession(spec, graph)
        self._output = _chosen(self._graph.outputs, spec.output)
        self._tokenizer = tokenizer_of(spec)
        self._tokenizer.enable_truncation(spec.max_tokens)
        self.dimension = self.vectors(self.tokens(["a"])).shape[1]

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text, cut to what the model accepts."""
        most = self._spec.max_tokens * CHARACTERS
        encodings = self._tokenizer.encode_batch([text[:most] for text in texts])
        return [encoding.ids or [self._graph.filler] for encoding in encodings]

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one vector for each text: texts × dimension, float32, of length 1."""
        states, mask = self._graph.run(self._output, cast(Sequence[Sequence[int]], batch))
        if states.ndim == 3:
            states = pooled(states.astype(np.float32, copy=False), mask, self._spec.pooling)
        return finished(states, self._spec.dimension)


def options(threads: int) -> Any:
    """Return the options of a session.

    Its threads wait for each other by spinning, but only while something runs.
    """
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = threads
    chosen.inter_op_num_threads = 1
    chosen.log_severity_level = 3
    chosen.add_session_config_entry("session.force_spinning_stop", "1")
    return chosen


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
    """Return the tokenizer beside the graph, without truncation or padding."""
    tokenizer = Tokenizer.from_file(os.path.join(spec.folder, "tokenizer.json"))
    tokenizer.no_padding()  # the file may have its own, to a fixed length
    tokenizer.no_truncation()
    return tokenizer


class PairModel:
    """A graph that returns one logit for a pair, or two of which the second is for relevance.

    The score is the sigmoid of one logit, or the second softmax of two. Only the text of a pair is cut to
    what the model accepts; of a question, at most half of that is read.
    """

    pads = True

    def __init__(self, spec: ModelSpec, graph: str) -> None:
        """Load the graph at that path. Raises ValueError where it wants or gives something else."""
        self._most = spec.max_tokens
        self._graph = GraphSession(spec, graph)
        names = [name for name, _ in self._graph.outputs]
        self._output = "logits" if "logits" in names else names[0]
        self._questions = tokenizer_of(spec)
        self._tokenizer = tokenizer_of(spec)
        self._tokenizer.enable_truncation(self._most, strategy="only_second")
        self.dimension = self.vectors(self.tokens(["a"], "a")).shape[1]

    def tokens(self, texts: Sequence[str], query: str = "") -> list[Sized]:
        """Return the tokens of each text after those of the query, cut to what the model accepts."""
        query = query[: self._most * CHARACTERS]
        question = self._questions.encode(query, add_special_tokens=False)
        most = max(self._most // 2, 1)
        if len(question.ids) > most:
            query = query[: question.offsets[most - 1][1]]
        pairs = [(query, text[: self._most * CHARACTERS]) for text in texts]
        return list(self._tokenizer.encode_batch(pairs))

    def vectors(self, batch: Sequence[Sized]) -> Floats:
        """Return one score for each pair: texts × 1, float32, in 0..1."""
        pairs = cast(Sequence[Encoding], batch)
        kinds = [pair.type_ids for pair in pairs]  # to which of the two each token belongs
        logits, _ = self._graph.run(self._output, [pair.ids for pair in pairs], kinds)
        return scores(logits)


def scores(logits: npt.NDArray[np.floating]) -> Floats:
    """Return pairs × 1 in 0..1 from logits (pairs × one or two).

    Raises ValueError for others, or if not finite.
    """
    rows = np.asarray(logits, np.float64).reshape(len(logits), -1)
    if rows.shape[1] not in (1, 2):
        raise ValueError(f"the graph gives {rows.shape[1]} logits a pair, not one or two")
    if not np.isfinite(rows).all():
        raise ValueError("the model gave logits that are no finite numbers")
    # The softmax of two is the sigmoid of their difference.
    single = rows[:, :1] if rows.shape[1] == 1 else rows[:, 1:] - rows[:, :1]
    sigmoid: Floats = (1 / (1 + np.exp(-np.clip(single, -700, 700)))).astype("<f4")
    return sigmoid
