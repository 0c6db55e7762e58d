"""BERT as an ONNX graph, made from its weights: for models that come without one.

The graph takes ``input_ids``, ``attention_mask`` and ``token_type_ids`` (int64, texts × tokens) and
gives ``last_hidden_state`` (float32, texts × tokens × hidden). Layers as in Devlin et al. 2019, named
as transformers' BertModel names them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR = 20, 9
_NOWHERE = float(np.finfo(np.float32).min)  # added to the score of padding: its weight becomes zero

Read = Callable[[str], npt.NDArray[Any]]


def bert_graph(config: Mapping[str, Any], read: Read) -> onnx.ModelProto:
    """Return the graph of a BertModel.

    ``config`` is its config.json; ``read`` returns the values of a tensor.

    Raises ValueError if the configuration is not BERT with absolute positions and gelu, KeyError if a weight
    is missing.
    """
    if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
        raise ValueError(f"no BERT with gelu: {config.get('model_type')}, {config.get('hidden_act')}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError(f"positions are {config['position_embedding_type']}")
    return _GraphBuilder(config, read).model()


class _GraphBuilder:
    def __init__(self, config: Mapping[str, Any], read: Read) -> None:
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._hidden: int = config["hidden_size"]
        self._epsilon: float = config.get("layer_norm_eps", 1e-12)
        self._read = read
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def model(self) -> onnx.ModelProto:
        absent = self._node("Sub", [self._constant("one", np.int64(1)), "attention_mask"])
        factor = self._node("Cast", [absent], to=TensorProto.FLOAT)
        masked = self._node("Mul", [factor, self._constant("nowhere", np.float32(_NOWHERE))])
        mask = self._node("Unsqueeze", [masked, self._constant("axes", np.array([1, 2], np.int64))])
        length = self._node("Squeeze", [self._node("Shape", ["input_ids"], start=1, end=2)])
        zero, one = self._constant("zero", np.int64(0)), self._constant("step", np.int64(1))
        positions = self._node("Range", [zero, length, one])
        words, kinds, places = (
            self._node("Gather", [self._weight(f"embeddings.{name}_embeddings.weight"), ids])
            for name, ids in (
                ("word", "input_ids"),
                ("token_type", "token_type_ids"),
                ("position", positions),
            )
        )
        state = self._norm("embeddings", self._node("Add", [self._node("Add", [words, kinds]), places]))
        for layer in range(self._layers):
            state = self._layer(f"encoder.layer.{layer}", state, mask)
        self._node("Identity", [state], "last_hidden_state")
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ]
        output = helper.make_tensor_value_info(
            "last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", self._hidden]
        )
        graph = helper.make_graph(self._nodes, "bert", inputs, [output], self._weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR, producer_name="tabane"
        )

    def _layer(self, at: str, state: str, mask: str) -> str:
        query, key, value = (
            self._head_wise(self._linear(f"{at}.attention.self.{name}", state), order)
            for name, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3)))
        )
        root = self._constant("root", np.float32(np.sqrt(self._hidden / self._heads)))
        scores = self._node("Div", [self._node("MatMul", [query, key]), root])
        weights = self._node("Softmax", [self._node("Add", [scores, mask])], axis=-1)
        mixed = self._node("Transpose", [self._node("MatMul", [weights, value])], perm=(0, 2, 1, 3))
        joined = self._node("Reshape", [mixed, self._constant("joined", np.array([0, 0, self._hidden]))])
        attended = self._linear(f"{at}.attention.output.dense", joined)
        state = self._norm(f"{at}.attention.output", self._node("Add", [attended, state]))
        wide = self._node("Gelu", [self._linear(f"{at}.intermediate.dense", state)])
        narrow = self._linear(f"{at}.output.dense", wide)
        return self._norm(f"{at}.output", self._node("Add", [narrow, state]))

    def _head_wise(self, state: str, order: Sequence[int]) -> str:
        width = self._hidden // self._heads
        shape = self._constant("split", np.array([0, 0, self._heads, width], np.int64))
        return self._node("Transpose", [self._node("Reshape", [state, shape])], perm=order)

    def _linear(self, at: str, state: str) -> str:
        product = self._node("MatMul", [state, self._weight(f"{at}.weight", transposed=True)])
        return self._node("Add", [product, self._weight(f"{at}.bias")])

    def _norm(self, at: str, state: str) -> str:
        inputs = [state, self._weight(f"{at}.LayerNorm.weight"), self._weight(f"{at}.LayerNorm.bias")]
        return self._node("LayerNormalization", inputs, axis=-1, epsilon=self._epsilon)

    def _weight(self, name: str, transposed: bool = False) -> str:
        values = self._read(name)
        stored = np.ascontiguousarray(values.T if transposed else values)
        self._weights.append(numpy_helper.from_array(stored, name))
        return name

    def _constant(self, name: str, value: Any) -> str:
        if all(weight.name != name for weight in self._weights):
            self._weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _node(self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        name = output or f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name


_LONGEST_HEADER = 100_000_000
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor: ``offset`` and ``length`` are bytes of the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


class WeightsFile:
    """The tensors of a safetensors file, which is mapped. Raises ValueError if it is not such a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 2 <= size <= min(_LONGEST_HEADER, os.fstat(file.fileno()).st_size - 8):
                raise ValueError(f"{path} is not a safetensors file")
            header = json.loads(file.read(size))
        self.tensors = {
            name: TensorEntry(entry["dtype"], tuple(entry["shape"]), 8 + size + first, end - first)
            for name, entry in header.items()
            if name != "__metadata__"
            for first, end in [entry["data_offsets"]]
        }
        self._data = np.memmap(path, np.uint8, "r")

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return the values of a tensor, float32 if they are floats; mapped, not read. Raises KeyError."""
        tensor = self.tensors[name]
        data = self._data[tensor.offset : tensor.offset + tensor.length]
        if tensor.dtype == "BF16":
            bits = data.view("<u2").astype(np.uint32) << 16
            return bits.view(np.float32).reshape(tensor.shape)
        values = data.view(_TYPES[tensor.dtype]).reshape(tensor.shape)
        return values.astype(np.float32, copy=False) if tensor.dtype.startswith("F") else values
