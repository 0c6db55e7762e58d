"""Models of a few thousand weights, made here, and what they must give: in float64, another way."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tabane.search.embedding.embedder import Embedder, Kind
from tabane.search.embedding.model_files import HubPlace
from tabane.search.embedding.model_finder import FoundModel, ModelChoice, ModelFinder
from tabane.search.embedding.model_hub import ModelHub

Array = npt.NDArray[Any]

WORDS = ["the", "a", "cat", "dog", "sat", "red", "blue", "house", "tree", "and", "猫", "犬", "家", "は", "が"]
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "vocab_size": len(WORDS) + 4,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
_erf = np.vectorize(math.erf)


def make(folder: Path, seed: int = 1, max_tokens: int = 16) -> Path:
    """A folder with config.json, tokenizer.json and model.safetensors, as sentence-transformers has them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}))
    tokenizer().save(str(folder / "tokenizer.json"))
    write_safetensors(folder / "model.safetensors", weights(seed))
    return folder


def tokenizer() -> Tokenizer:
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    made.enable_padding(length=32)  # as many published files have it, which is to be undone
    return made


def weights(seed: int) -> dict[str, Array]:
    """Of a BertModel of :data:`CONFIG`, at random."""
    random = np.random.default_rng(seed)
    hidden, wide = 24, 40
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS) + 4, hidden),
        "embeddings.position_embeddings.weight": (32, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
    }
    linear: dict[str, tuple[int, ...]] = {}
    for layer in range(2):
        at = f"encoder.layer.{layer}"
        linear |= {f"{at}.attention.self.{name}": (hidden, hidden) for name in ("query", "key", "value")}
        linear |= {
            f"{at}.attention.output.dense": (hidden, hidden),
            f"{at}.intermediate.dense": (wide, hidden),
            f"{at}.output.dense": (hidden, wide),
        }
        for place in (f"{at}.attention.output", f"{at}.output"):
            shapes |= {f"{place}.LayerNorm.weight": (hidden,), f"{place}.LayerNorm.bias": (hidden,)}
    shapes |= {"embeddings.LayerNorm.weight": (hidden,), "embeddings.LayerNorm.bias": (hidden,)}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def write_safetensors(path: Path, tensors: Mapping[str, Array]) -> None:
    header, data = {"__metadata__": {"format": "pt"}}, b""
    kinds = {"float32": "F32", "float16": "F16", "uint16": "BF16", "int64": "I64"}
    entries: dict[str, Any] = dict(header)
    for name, values in tensors.items():
        start = len(data)
        data += np.ascontiguousarray(values).tobytes()
        kind = kinds[str(values.dtype)]
        entries[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [start, len(data)]}
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def states(
    config: Mapping[str, Any],
    read: Mapping[str, Array],
    ids: Sequence[int],
    kinds: Sequence[int] | None = None,
) -> Array:
    """The last hidden states of one text, tokens × hidden, by Devlin et al. 2019 in float64.

    ``kinds`` are the types of the tokens, all 0 where there are none.
    """

    def value(name: str) -> Array:
        return np.asarray(read[name], np.float64)

    def linear(name: str, state: Array) -> Array:
        return state @ value(f"{name}.weight").T + value(f"{name}.bias")

    def norm(name: str, state: Array) -> Array:
        centred = state - state.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return np.asarray(scaled * value(f"{name}.LayerNorm.weight") + value(f"{name}.LayerNorm.bias"))

    def attend(at: str, state: Array) -> Array:
        heads = config["num_attention_heads"]
        parts = []
        query, key, content = (linear(f"{at}.self.{name}", state) for name in ("query", "key", "value"))
        for q, k, v in zip(*(np.split(x, heads, axis=1) for x in (query, key, content)), strict=True):
            scores = np.exp(q @ k.T / math.sqrt(q.shape[1]))
            parts.append(scores / scores.sum(-1, keepdims=True) @ v)
        return np.concatenate(parts, axis=1)

    word = value("embeddings.word_embeddings.weight")[list(ids)]
    place = value("embeddings.position_embeddings.weight")[: len(ids)]
    kind = value("embeddings.token_type_embeddings.weight")[list(kinds or [0] * len(ids))]
    state = norm("embeddings", word + place + kind)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        attended = linear(f"{at}.attention.output.dense", attend(f"{at}.attention", state))
        state = norm(f"{at}.attention.output", attended + state)
        inner = linear(f"{at}.intermediate.dense", state)
        active = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
        state = norm(f"{at}.output", linear(f"{at}.output.dense", active) + state)
    return np.asarray(state)


def unit(vector: Array) -> Array:
    return np.asarray(vector / math.sqrt(float((vector**2).sum())))


def floats(vectors: Sequence[bytes]) -> Array:
    """Vectors as the embedders give them, texts × dimension."""
    return np.stack([np.frombuffer(vector, "<f4") for vector in vectors])


@asynccontextmanager
async def installed(folder: Path, wanted: ModelChoice, **finder: Any) -> AsyncIterator[Embedder]:
    """Open a model of a package. What is made of it is kept in the folder."""
    hub = ModelHub(HubPlace(str(folder / "hub"), offline=True))
    found = await ModelFinder(hub, str(folder), **finder).find(wanted)
    assert isinstance(found, FoundModel)
    embedder = await found.open(os.environ)
    try:
        yield embedder
    finally:
        await embedder.close()


def embedded(folder: Path, wanted: ModelChoice, texts: list[str], kind: Kind = "document") -> Array:
    """Return the vectors that a model of a package gives texts."""

    async def run() -> Array:
        async with installed(folder, wanted) as embedder:
            return floats(await embedder.embed(texts, kind))

    return asyncio.run(run())
