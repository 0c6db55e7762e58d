"""Weights in a safetensors file: where each tensor is, and its values.

Format: eight bytes of length, little-endian; a JSON object of that length, tensor name to dtype, shape
and offsets; the data, to which the offsets count. (https://github.com/huggingface/safetensors)
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """The tensors of a file. Raises ValueError where it is no such file; nothing is read beforehand."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 2 <= size <= min(_LONGEST_HEADER, os.fstat(file.fileno()).st_size - 8):
                raise ValueError(f"{path} is no safetensors file")
            header = json.loads(file.read(size))
        self.tensors = {
            name: _tensor(entry, 8 + size) for name, entry in header.items() if name != "__metadata__"
        }
        self._data = np.memmap(path, np.uint8, "r")

    def array(self, name: str) -> npt.NDArray[Any]:
        """The values of a tensor, float32 where they are floats; mapped, not read. Raises KeyError."""
        tensor = self.tensors[name]
        data = self._data[tensor.offset : tensor.offset + tensor.length]
        if tensor.dtype == "BF16":
            bits = data.view("<u2").astype(np.uint32) << 16
            return bits.view(np.float32).reshape(tensor.shape)
        values = data.view(_TYPES[tensor.dtype]).reshape(tensor.shape)
        return values.astype(np.float32, copy=False) if tensor.dtype.startswith("F") else values


def _tensor(entry: dict[str, Any], start: int) -> TensorEntry:
    first, end = entry["data_offsets"]
    return TensorEntry(entry["dtype"], tuple(entry["shape"]), start + first, end - first)
